"""Marginals of q(f): mean M_i mu and variance M_i S M_i^T, in O(4^D) a point.

For Kronecker S the variance at a point is the product over the axes of quadratic forms w^T S_d[4 neighbours] w. Those
4 x 4 blocks lie in the four central diagonals of S_d. Each block is factorised once, for all points in its cell:
w^T (C C^T) w = ||C^T w||^2 is a sum of four squared cubics of the position, so it cannot be negative.
"""

from typing import NamedTuple

import torch

from svdkl.gp.fast.backends import marginals
from svdkl.gp.interpolation import NEIGHBOURS, cubic_coefficients
from svdkl.gp.linalg.banded import dense_gram
from svdkl.gp.linalg.circulant import circulant_congruence
from svdkl.gp.linalg.small import unrolled_cholesky
from svdkl.gp.posterior import AxisFactor, Posterior
from svdkl.gp.prior import AxisPrior, CirculantAxis, Prior
from svdkl.shapes import Float, Tensor


def cell_roots(diagonals: Float[Tensor, "J 4 m"], dtype: torch.dtype | None = None) -> Float[Tensor, "4 4 J cells"]:
    """Return four cubics a cell whose squares add up to w(t)^T S_d w(t); roots[r, p] multiplies t^p in the r-th.

    ``diagonals[k, i]`` is S_d[i, i + k], in the precision of the computation. ``dtype`` is the precision of the result.
    """
    dtype = dtype or diagonals.dtype
    if diagonals.device.type != "cpu" or torch.compiler.is_compiling():
        return eager_cell_roots(diagonals).to(dtype)
    from svdkl.gp.fast.root_loops import CPUCellRoots

    return CPUCellRoots.apply(diagonals, dtype)


def eager_cell_roots(diagonals: Float[Tensor, "J 4 m"]) -> Float[Tensor, "4 4 J cells"]:
    """Compute :func:`cell_roots` by tensor operations: for any device, traced code and second derivatives."""
    bands = diagonals.unbind(1)
    starts = diagonals.shape[-1] - NEIGHBOURS + 1  # runs of four neighbours
    # S[i + a, i + b] = bands[a - b][i + b] for b <= a, over all runs i at once.
    blocks = [[bands[a - b][:, b : b + starts] for b in range(a + 1)] for a in range(NEIGHBOURS)]
    factor = unrolled_cholesky(blocks)
    zero = torch.zeros_like(factor[0][0])
    # C^T w = sum_a w_a C[a]: one tensor (4 roots, J, starts) for each neighbour a.
    inner = [torch.stack(row + [zero] * (NEIGHBOURS - len(row))) for row in factor]
    # The first and the last cell read the ghost point beyond the end instead of the far neighbour.
    first = [row[..., :1] for row in inner]
    last = [row[..., -1:] for row in inner]
    before = 3 * first[0] - 3 * first[1] + first[2]
    after = 3 * last[3] - 3 * last[2] + last[1]
    rows = [torch.cat(parts, -1) for parts in zip([before, *first[:3]], inner, [*last[1:], after], strict=True)]
    return cubic_coefficients(*rows).movedim(0, 1)


class Marginals(NamedTuple):
    """Mean and variance of the independent Gaussians q(f_ij)."""

    mean: Float[Tensor, "B J"]
    variance: Float[Tensor, "B J"]


class MarginalTables(NamedTuple):
    """Tables of q(u), computed once, from which the marginals at any number of points can be read."""

    mean: Float[Tensor, "J ..."]
    roots: tuple[Float[Tensor, "4 4 J cells"], ...]  # for each axis, four cubics a cell, whose squares add up

    def at(self, positions: Float[Tensor, "B J D"], interpolation: str = "auto") -> Marginals:
        """Return q(f_ij) at these positions; :func:`svdkl.gp.fast.backends.marginals` explains the backends."""
        return Marginals(*marginals(self.mean, self.roots, positions, interpolation))


def tabulate(posterior: Posterior, prior: Prior | None, dtype: torch.dtype) -> MarginalTables:
    """Prepare the marginals of q(f). A whitened posterior needs the prior, whose root R turns v into u."""
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
    """Return S_d[i, i + k] for k < 4, where S_d = L L^T, or R L L^T R^T with the root R of an axis' prior."""
    if axis is None:
        return factor.gram(NEIGHBOURS)
    if isinstance(axis, CirculantAxis) and factor.width < factor.size:
        return circulant_congruence(axis.spectrum.sqrt(), factor.gram(factor.width), NEIGHBOURS)
    if isinstance(axis, CirculantAxis):
        return dense_gram(axis.colour(factor.dense()), NEIGHBOURS)
    return factor.coloured_gram(axis.root, NEIGHBOURS)
