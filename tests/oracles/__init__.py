"""Tests of each piece of mathematics, values and gradients, against slow dense algebra."""
