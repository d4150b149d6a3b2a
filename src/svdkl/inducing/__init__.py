"""Inducing values on the lattice: their prior p(u), posterior q(u), the divergence between them, and q(f)."""
