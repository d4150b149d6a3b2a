"""Suites of experiments: what they hold, how they are run, what they leave."""
