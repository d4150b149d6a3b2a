"""Each piece of mathematics against slow dense algebra, values and gradients."""
