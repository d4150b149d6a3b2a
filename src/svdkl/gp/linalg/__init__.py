"""Structured linear algebra on tensors, which knows nothing of GPs and never forms a Kronecker product."""
