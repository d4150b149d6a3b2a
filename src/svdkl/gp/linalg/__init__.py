"""Structured linear algebra on tensors; knows nothing of Gaussian processes and never forms a product matrix."""
