"""Training: so far, how a model starts from a trained network."""
