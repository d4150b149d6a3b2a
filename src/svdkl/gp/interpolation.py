"""Local cubic interpolation on a lattice (Keys, 1981): the sparse matrix M of KISS-GP, 4^D non-zeros a row.

f = M u, where M is never formed. Positions are in grid points, of shape (B, J, D): every GP has its own. A position
past the lattice is read at its end, so no row is ever out of bounds. In the first and the last cell we take the missing
neighbour, the *ghost point*, from the quadratic through the three nearest points, as Keys does. So constants, linear
functions and quadratics are reproduced everywhere on the lattice, and f has a continuous slope.

The mean of a GP interpolates its values on the lattice. Its variance is the product over the axes of a sum of four
squared functions, each of them a cubic in every cell: ``roots[d][r, p]`` holds the coefficients of t^p of the r-th.
``eager_marginals`` reads both at any positions; every compiled backend must equal it.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from svdkl.shapes import Float, Int, Tensor

NEIGHBOURS = 4  # a cubic is fixed by the values at four points

Roots = Sequence[Float[Tensor, "4 4 J _"]]
MeanAndVariance = tuple[Float[Tensor, "B J"], Float[Tensor, "B J"]]


class Cells(NamedTuple):
    """The cell of each position on one axis, and where in the cell it lies."""

    cell: Int[Tensor, "B J"]  # the grid point to the left: 0, ..., m_d - 2
    fraction: Float[Tensor, "B J"]  # the way from there to the next point: 0 to 1


def locate(position: Float[Tensor, "B J"], size: int) -> Cells:
    """Find the cell and the fraction of each position; a NaN gets a valid cell and stays NaN in the fraction."""
    inside = position.clamp(0, size - 1)
    left = inside.detach().floor().clamp(max=size - 2)
    return Cells(left.nan_to_num(0.0).long(), inside - left)


def keys_weights(fraction: Float[Tensor, "B J"]) -> Float[Tensor, "4 B J"]:
    """Return Keys' weights of the grid points left - 1, left, left + 1, left + 2."""
    t = fraction
    return torch.stack(
        [
            ((-0.5 * t + 1) * t - 0.5) * t,
            (1.5 * t - 2.5) * t * t + 1,
            ((-1.5 * t + 2) * t + 0.5) * t,
            (0.5 * t - 0.5) * t * t,
        ]
    )


def with_ghosts(values: Float[Tensor, "*batch m"]) -> Float[Tensor, "*batch m+2"]:
    """Add a ghost point at either end, from the quadratic through the nearest three points."""
    first = 3 * values[..., :1] - 3 * values[..., 1:2] + values[..., 2:3]
    last = 3 * values[..., -1:] - 3 * values[..., -2:-1] + values[..., -3:-2]
    return torch.cat([first, values, last], -1)


def lattice_with_ghosts(values: Float[Tensor, "..."], num_dims: int) -> Float[Tensor, "..."]:
    """Add ghost points along each of the last ``num_dims`` axes."""
    for axis in range(-num_dims, 0):
        values = with_ghosts(values.movedim(axis, -1)).movedim(-1, axis)
    return values


def fold_ghosts(values: Float[Tensor, "*batch p"]) -> Float[Tensor, "*batch p-2"]:
    """Apply the transpose of :func:`with_ghosts`."""
    inner = values[..., 1:-1]
    head = values[..., :1] * values.new_tensor([3.0, -3.0, 1.0])
    tail = values[..., -1:] * values.new_tensor([1.0, -3.0, 3.0])
    rest = inner.shape[-1] - 3
    return inner + torch.nn.functional.pad(head, (0, rest)) + torch.nn.functional.pad(tail, (rest, 0))


def lattice_fold_ghosts(values: Float[Tensor, "..."], num_dims: int) -> Float[Tensor, "..."]:
    """Apply the transpose of :func:`lattice_with_ghosts`."""
    for axis in range(-num_dims, 0):
        values = fold_ghosts(values.movedim(axis, -1)).movedim(-1, axis)
    return values


def cubic_coefficients(
    p0: Float[Tensor, "*batch"], p1: Float[Tensor, "*batch"], p2: Float[Tensor, "*batch"], p3: Float[Tensor, "*batch"]
) -> Float[Tensor, "4 *batch"]:
    """Return coefficients of 1, t, t^2, t^3 of the cubic through four values, t = 0 at ``p1`` and 1 at ``p2``."""
    return torch.stack([p1, 0.5 * (p2 - p0), p0 - 2.5 * p1 + 2 * p2 - 0.5 * p3, 0.5 * (p3 - p0) + 1.5 * (p1 - p2)])


def cell_cubics(values: Float[Tensor, "*batch m"]) -> Float[Tensor, "4 *batch m-1"]:
    """Return coefficients of 1, t, t^2, t^3 of the interpolating function in each cell of one axis."""
    u = with_ghosts(values)
    return cubic_coefficients(u[..., :-3], u[..., 1:-2], u[..., 2:-1], u[..., 3:])


class _CellCubics(torch.autograd.Function):
    """Read y[k, b, j] = sum_p coefficients[k, p, j, cell[b, j]] t[b, j]^p: one gather forward, one scatter back."""

    @staticmethod
    def forward(coefficients: Tensor, index: Tensor, t: Tensor) -> Tensor:
        c0, c1, c2, c3 = _gather(coefficients, index)
        t = t.flatten()
        y = torch.addcmul(c2, c3, t)
        y = torch.addcmul(c1, y, t)
        y = torch.addcmul(c0, y, t)
        return y.unflatten(-1, index.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, Tensor | None]:
        coefficients, index, t = ctx.saved_tensors
        where, t, grad = index.flatten(), t.flatten(), grad.flatten(1)
        grad_coefficients = grad_t = None
        if ctx.needs_input_grad[0]:
            g1 = grad * t
            g2 = g1 * t
            moments = torch.stack([grad, g1, g2, g2 * t], 1)
            flat = coefficients.new_zeros(moments.shape[0] * moments.shape[1], coefficients[0, 0].numel())
            grad_coefficients = flat.index_add(1, where, moments.flatten(0, 1)).view_as(coefficients)
        if ctx.needs_input_grad[2]:
            c1, c2, c3 = _gather(coefficients[:, 1:], index)
            slope = torch.addcmul(c1, torch.addcmul(2 * c2, c3, t, value=3), t)
            grad_t = (grad * slope).sum(0).view(index.shape)
        return grad_coefficients, None, grad_t


def _gather(coefficients: Float[Tensor, "K powers J cells"], index: Int[Tensor, "B J"]) -> tuple[Tensor, ...]:
    """Return each power's coefficients at each point, (K, B J): index_select is slow with more than two dimensions."""
    num_functions, num_powers = coefficients.shape[:2]
    flat = coefficients.reshape(num_functions * num_powers, -1).index_select(1, index.flatten())
    return flat.unflatten(0, (num_functions, num_powers)).unbind(1)


def evaluate_cubics(coefficients: Float[Tensor, "K 4 J cells"], cells: Cells) -> Float[Tensor, "K B J"]:
    """Evaluate K functions that are a cubic in each cell of one axis, for J GPs at once."""
    num_gps, num_cells = coefficients.shape[-2:]
    index = cells.cell + num_cells * torch.arange(num_gps, device=cells.cell.device)
    return _CellCubics.apply(coefficients.contiguous(), index, cells.fraction)


def _sparse_rows(
    positions: Float[Tensor, "B J D"], sizes: Sequence[int]
) -> tuple[Int[Tensor, "B J n"], Float[Tensor, "B J n"]]:
    """Return column numbers and values of the 4^D non-zeros in each row of M, on the lattice with ghost points."""
    index = torch.zeros_like(positions[..., :1], dtype=torch.long)
    weight = torch.ones_like(positions[..., :1])
    offsets = torch.arange(NEIGHBOURS, device=positions.device)
    for axis, size in enumerate(sizes):
        cells = locate(positions[..., axis], size)
        w = keys_weights(cells.fraction).movedim(0, -1)
        index = (index.unsqueeze(-1) * (size + 2) + (cells.cell.unsqueeze(-1) + offsets).unsqueeze(-2)).flatten(-2)
        weight = (weight.unsqueeze(-1) * w.unsqueeze(-2)).flatten(-2)
    return index, weight


def interpolate(values: Float[Tensor, "..."], positions: Float[Tensor, "B J D"]) -> Float[Tensor, "..."]:
    """Return M u, (..., B, J): lattice values (..., J, m_1, ..., m_D) interpolated at positions (B, J, D)."""
    num_dims = positions.shape[-1]
    num_gps = positions.shape[-2]
    sizes = values.shape[-num_dims:]
    batch = values.shape[: -num_dims - 1]
    flat = values.reshape(math.prod(batch), num_gps, *sizes)
    if num_dims == 1:
        cubics = cell_cubics(flat).movedim(0, 1)
        result = evaluate_cubics(cubics, locate(positions[..., 0], sizes[0]))
        return result.reshape(*batch, *result.shape[1:])

    table = lattice_with_ghosts(flat, num_dims).flatten(1)
    index, weight = _sparse_rows(positions, sizes)
    offset = math.prod([size + 2 for size in sizes]) * torch.arange(num_gps, device=index.device)
    gathered = table.index_select(1, (index + offset[:, None]).flatten()).unflatten(1, index.shape)
    result = (gathered * weight).sum(-1)
    return result.reshape(*batch, *result.shape[1:])


def interpolation_weights(position: Float[Tensor, "B J"], size: int) -> Float[Tensor, "B J size"]:
    """Write out the rows of M of one axis, for covariances between chosen points."""
    rows = _sparse_rows(position.unsqueeze(-1), (size,))
    dense = position.new_zeros(*position.shape, size + 2).scatter_add(-1, rows[0], rows[1])
    return fold_ghosts(dense)


def eager_marginals(values: Float[Tensor, "J ..."], roots: Roots, positions: Float[Tensor, "B J D"]) -> MeanAndVariance:
    """Compute means and variances by tensor operations: for any device, any D, traced code and second derivatives."""
    if len(roots) == 1:
        # The mean is a fifth cubic in each cell, which we read in the same pass.
        table = torch.cat([cell_cubics(values).unsqueeze(0), roots[0]])
        cubics = evaluate_cubics(table, locate(positions[..., 0], values.shape[-1]))
        return cubics[0], cubics[1:].square().sum(0)
    variance = torch.ones_like(positions[..., 0])
    for d, cubics in enumerate(roots):
        along = evaluate_cubics(cubics, locate(positions[..., d], cubics.shape[-1] + 1))
        variance = variance * along.square().sum(0)
    return interpolate(values, positions), variance


def eager_lattice(
    values: Float[Tensor, "J ..."], positions: Float[Tensor, "B J D"], *roots: Float[Tensor, "4 4 J _"]
) -> MeanAndVariance:
    """Call :func:`eager_marginals` with each tensor as an argument of its own, as autograd functions take them."""
    return eager_marginals(values, roots, positions)
