"""Mean and variance at points from tables on a lattice: the eager path, which every backend must equal.

The mean of a GP interpolates its values on the lattice. Its variance is the product over the axes of a sum of four
squared functions, each of them a cubic in every cell: ``roots[d][r, p]`` holds the coefficients of t^p of the r-th.
"""

from collections.abc import Sequence

import torch

from svdkl.interpolation.matrix import cell_cubics, evaluate_cubics, interpolate, locate
from svdkl.shapes import Float, Tensor

Roots = Sequence[Float[Tensor, "4 4 J _"]]
MeanAndVariance = tuple[Float[Tensor, "B J"], Float[Tensor, "B J"]]


def eager_marginals(values: Float[Tensor, "J ..."], roots: Roots, positions: Float[Tensor, "B J D"]) -> MeanAndVariance:
    """By tensor operations: for any device, any D, traced code and second derivatives."""
    if len(roots) == 1:
        return line_marginals(line_table(values, roots[0]), positions[..., 0])
    variance = torch.ones_like(positions[..., 0])
    for d, cubics in enumerate(roots):
        along = evaluate_cubics(cubics, locate(positions[..., d], cubics.shape[-1] + 1))
        variance = variance * along.square().sum(0)
    return interpolate(values, positions), variance


def eager_lattice(
    values: Float[Tensor, "J ..."], positions: Float[Tensor, "B J D"], *roots: Float[Tensor, "4 4 J _"]
) -> MeanAndVariance:
    """The same, each tensor an argument of its own, as functions with gradients take them."""
    return eager_marginals(values, roots, positions)


def line_table(values: Float[Tensor, "J m"], roots: Float[Tensor, "4 4 J cells"]) -> Float[Tensor, "5 4 J cells"]:
    """With one axis the mean is a fifth cubic in each cell, read in the same pass."""
    return torch.cat([cell_cubics(values).unsqueeze(0), roots])


def line_marginals(table: Float[Tensor, "5 4 J cells"], positions: Float[Tensor, "B J"]) -> MeanAndVariance:
    """The first cubic is the mean, the sum of the squares of the other four the variance."""
    cubics = evaluate_cubics(table, locate(positions, table.shape[-1] + 1))
    return cubics[0], cubics[1:].square().sum(0)
