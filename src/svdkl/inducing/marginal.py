"""Marginals of q(f): mean M_i mu and variance M_i S M_i^T, in O(4^D) a point.

For Kronecker S the variance at a point is the product over the axes of quadratic forms w^T S_d[4 neighbours] w. Those
4 x 4 blocks lie in the four central diagonals of S_d. Each block is factorised once, for all points in its cell:
w^T (C C^T) w = ||C^T w||^2 is a sum of four squared cubics of the position, so it cannot be negative.
"""

from typing import NamedTuple

import torch

from svdkl.inducing.posterior import AxisFactor, Posterior
from svdkl.inducing.prior import AxisPrior, CirculantAxis, Prior
from svdkl.inducing.roots import cell_roots
from svdkl.interpolation import NEIGHBOURS, marginals
from svdkl.linalg.banded import dense_gram
from svdkl.linalg.circulant import circulant_sqrt
from svdkl.linalg.congruence import circulant_congruence
from svdkl.shapes import Float, Tensor


class Marginals(NamedTuple):
    """Independent Gaussians q(f_ij)."""

    mean: Float[Tensor, "B J"]
    variance: Float[Tensor, "B J"]


class MarginalTables(NamedTuple):
    """q(u) prepared for reading off marginals at any number of points: compute once, apply many times."""

    mean: Float[Tensor, "J ..."]
    roots: tuple[Float[Tensor, "4 4 J cells"], ...]  # for each axis, four cubics a cell, whose squares add up

    def at(self, positions: Float[Tensor, "B J D"], interpolation: str = "auto") -> Marginals:
        """q(f_ij) at these positions, by the backend of that name; see :func:`svdkl.interpolation.marginals`."""
        return Marginals(*marginals(self.mean, self.roots, positions, interpolation))


def tabulate(posterior: Posterior, prior: Prior | None, dtype: torch.dtype) -> MarginalTables:
    """Prepare the marginals of q(f). A whitened posterior needs the prior to be coloured with."""
    mean: Tensor = posterior.mean
    if posterior.whitened:
        assert prior is not None
        mean = prior.colour(mean.double())
    pairs = zip(prior.axes, posterior.axes, strict=True) if prior is not None else ((None, a) for a in posterior.axes)
    roots = [
        cell_roots(central_diagonals(factor, axis if posterior.whitened else None), dtype) for axis, factor in pairs
    ]
    return MarginalTables(mean.to(dtype), tuple(roots))


def central_diagonals(factor: AxisFactor, axis: AxisPrior | None) -> Float[Tensor, "J 4 m"]:
    """diagonals[k, i] = S_d[i, i + k], k < 4, where S_d = L L^T, or R L L^T R^T if an axis to colour with is given."""
    if axis is None:
        return factor.gram(NEIGHBOURS)
    if isinstance(axis, CirculantAxis) and factor.width < factor.size:
        return circulant_congruence(circulant_sqrt(axis.spectrum), factor.gram(factor.width), NEIGHBOURS)
    if isinstance(axis, CirculantAxis):
        return dense_gram(axis.colour(factor.dense()), NEIGHBOURS)
    return factor.coloured_gram(axis.root, NEIGHBOURS)
