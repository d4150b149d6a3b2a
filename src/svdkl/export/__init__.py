"""A fitted model as a file that other programs run."""
