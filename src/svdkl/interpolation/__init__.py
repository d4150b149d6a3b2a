"""Reading functions on a lattice between its points: the matrix M, and the marginals of q(f) by several backends."""

from svdkl.interpolation.backends import marginals, require_backend
from svdkl.interpolation.matrix import (
    NEIGHBOURS,
    cubic_coefficients,
    interpolate,
    interpolate_transposed,
    interpolation_weights,
    locate,
)

__all__ = [
    "NEIGHBOURS",
    "cubic_coefficients",
    "interpolate",
    "interpolate_transposed",
    "interpolation_weights",
    "locate",
    "marginals",
    "require_backend",
]
