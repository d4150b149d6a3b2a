"""Triton kernels for GPUs: marginals for D = 1, 2, 3, value and gradient in one pass over the positions each.

Each lane has a point. A lattice always has three axes here; a missing axis has a single point, of weight 1 and variance
1. The compiler unrolls loops over neighbours and computes a weight that stands in several terms once.

Sums over points, for the gradients of the lattice and of the cubics, are atomic additions in float64. Their order
differs from run to run, but float64 hides that from single precision.
"""

from collections.abc import Sequence
from typing import Any, no_type_check

import torch
import triton
import triton.language as tl

from svdkl.gp.fast.compiling import differentiable_gradients
from svdkl.gp.fast.line_loops import DEGREE, root_gradients, rows_by_cell
from svdkl.gp.interpolation import NEIGHBOURS, MeanAndVariance, eager_lattice, lattice_fold_ghosts, lattice_with_ghosts
from svdkl.shapes import Float, Tensor

# ruff: noqa: RET505 (without an else, Triton compiles what follows a return as well)

# Nothing may wrap what Triton compiles: hence no_type_check throughout.

BLOCK = 128  # points of a program: four warps, which is Triton's default
AXES = 3  # the kernels are written out for so many


@triton.jit
@no_type_check
def _locate(positions, at, mask, num_cells, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    """Find position, cell and fraction; a NaN gets a valid cell and stays NaN in the fraction."""
    if TAPS == 1:
        zero = tl.full([BLOCK], 0.0, positions.dtype.element_ty)
        return zero, tl.full([BLOCK], 0, tl.int32), zero
    else:
        position = tl.load(positions + at, mask, other=0.0)
        inside = tl.where(position < 0, 0.0, position)
        inside = tl.where(inside > num_cells, num_cells, inside)
        cell = tl.where(inside == inside, inside, 0.0).to(tl.int32)
        cell = tl.where(cell > num_cells - 1, num_cells - 1, cell)
        return position, cell, inside - cell


@triton.jit
@no_type_check
def _weight(t, tap: tl.constexpr, TAPS: tl.constexpr):
    if TAPS == 1:
        return t + 1.0
    elif tap == 0:
        return ((-0.5 * t + 1.0) * t - 0.5) * t
    elif tap == 1:
        return (1.5 * t - 2.5) * t * t + 1.0
    elif tap == 2:
        return ((-1.5 * t + 2.0) * t + 0.5) * t
    else:
        return (0.5 * t - 0.5) * t * t


@triton.jit
@no_type_check
def _weight_slope(t, tap: tl.constexpr, TAPS: tl.constexpr):
    if TAPS == 1:
        return t
    elif tap == 0:
        return (-1.5 * t + 2.0) * t - 0.5
    elif tap == 1:
        return (4.5 * t - 5.0) * t
    elif tap == 2:
        return (-4.5 * t + 4.0) * t + 0.5
    else:
        return (1.5 * t - 1.0) * t


@triton.jit
@no_type_check
def _variance(rows, row, t, mask, TAPS: tl.constexpr):
    """Compute the variance along one axis, the sum of four squared cubics, and its slope."""
    if TAPS == 1:
        return t + 1.0, t
    else:
        variance = 0.0
        slope = 0.0
        for k in tl.static_range(0, 16, 4):
            at = rows + row * 16 + k
            c0 = tl.load(at, mask, other=0.0)
            c1 = tl.load(at + 1, mask, other=0.0)
            c2 = tl.load(at + 2, mask, other=0.0)
            c3 = tl.load(at + 3, mask, other=0.0)
            y = c0 + t * (c1 + t * (c2 + t * c3))
            variance += y * y
            slope += 2.0 * y * (c1 + t * (2.0 * c2 + 3.0 * c3 * t))
        return variance, slope


@triton.jit
@no_type_check
def _add_moments(moments, row, t, v, mask, TAPS: tl.constexpr):
    """Add v t^p, p = 0 ... 6, in float64, which hides the order of the additions."""
    if TAPS > 1:
        term = v
        for p in tl.static_range(7):
            tl.atomic_add(moments + row * 7 + p, term.to(tl.float64), mask)
            term = term * t


@triton.jit
@no_type_check
def _store_slope(grad_positions, at, position, num_cells, slope, mask, TAPS: tl.constexpr):
    """Store the slope of a position; beyond the ends of the axis it is zero."""
    if TAPS > 1:
        inside = (position >= 0) & (position <= num_cells)
        tl.store(grad_positions + at, tl.where(inside, slope, 0.0), mask)


@triton.jit
@no_type_check
def forward_kernel(
    u, rows0, rows1, rows2, positions, mean, variance, num_points, num_gps, cells0, cells1, cells2,
    D: tl.constexpr, TAPS0: tl.constexpr, TAPS1: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Read mean and variance: ``u`` is the lattices with ghost points, ``rows`` each axis' four cubics a cell."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < num_points
    j = i % num_gps
    _, c0, t0 = _locate(positions, i * D + D - 3, mask, cells0, TAPS0, BLOCK)
    _, c1, t1 = _locate(positions, i * D + D - 2, mask, cells1, TAPS1, BLOCK)
    _, c2, t2 = _locate(positions, i * D + D - 1, mask, cells2, 4, BLOCK)
    v0, _ = _variance(rows0, j * cells0 + c0, t0, mask, TAPS0)
    v1, _ = _variance(rows1, j * cells1 + c1, t1, mask, TAPS1)
    v2, _ = _variance(rows2, j * cells2 + c2, t2, mask, 4)
    tl.store(variance + i, v0 * v1 * v2, mask)
    n0 = cells0 + TAPS0 - 1
    n1 = cells1 + TAPS1 - 1
    n2 = cells2 + 3
    total = 0.0
    for a in tl.static_range(TAPS0):
        for b in tl.static_range(TAPS1):
            at = u + ((j * n0 + c0 + a) * n1 + c1 + b) * n2 + c2
            line = 0.0
            for c in tl.static_range(4):
                line += _weight(t2, c, 4) * tl.load(at + c, mask, other=0.0)
            total += _weight(t0, a, TAPS0) * _weight(t1, b, TAPS1) * line
    tl.store(mean + i, total, mask)


@triton.jit
@no_type_check
def backward_kernel(
    u, rows0, rows1, rows2, positions, grad_mean, grad_variance,
    grad_positions, grad_u, moments0, moments1, moments2, num_points, num_gps, cells0, cells1, cells2,
    D: tl.constexpr, TAPS0: tl.constexpr, TAPS1: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add gradients; ``moments`` sums (gradient of the axis' variance) t^p, p = 0 ... 6, for each axis and cell."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = i < num_points
    j = i % num_gps
    at0 = i * D + D - 3  # never read where there is no such axis
    at1 = i * D + D - 2
    at2 = i * D + D - 1
    p0, c0, t0 = _locate(positions, at0, mask, cells0, TAPS0, BLOCK)
    p1, c1, t1 = _locate(positions, at1, mask, cells1, TAPS1, BLOCK)
    p2, c2, t2 = _locate(positions, at2, mask, cells2, 4, BLOCK)
    v0, s0 = _variance(rows0, j * cells0 + c0, t0, mask, TAPS0)
    v1, s1 = _variance(rows1, j * cells1 + c1, t1, mask, TAPS1)
    v2, s2 = _variance(rows2, j * cells2 + c2, t2, mask, 4)
    g = tl.load(grad_mean + i, mask, other=0.0)
    v = tl.load(grad_variance + i, mask, other=0.0)
    n0 = cells0 + TAPS0 - 1
    n1 = cells1 + TAPS1 - 1
    n2 = cells2 + 3
    slope0 = 0.0
    slope1 = 0.0
    slope2 = 0.0
    for a in tl.static_range(TAPS0):
        for b in tl.static_range(TAPS1):
            at = ((j * n0 + c0 + a) * n1 + c1 + b) * n2 + c2
            w0 = _weight(t0, a, TAPS0)
            w1 = _weight(t1, b, TAPS1)
            line = 0.0
            along = 0.0
            for c in tl.static_range(4):
                value = tl.load(u + at + c, mask, other=0.0)
                w2 = _weight(t2, c, 4)
                line += w2 * value
                along += _weight_slope(t2, c, 4) * value
                tl.atomic_add(grad_u + at + c, (g * w0 * w1 * w2).to(tl.float64), mask)
            slope0 += _weight_slope(t0, a, TAPS0) * w1 * line
            slope1 += w0 * _weight_slope(t1, b, TAPS1) * line
            slope2 += w0 * w1 * along
    _store_slope(grad_positions, at0, p0, cells0, g * slope0 + v * v1 * v2 * s0, mask, TAPS0)
    _store_slope(grad_positions, at1, p1, cells1, g * slope1 + v * v0 * v2 * s1, mask, TAPS1)
    _store_slope(grad_positions, at2, p2, cells2, g * slope2 + v * v0 * v1 * s2, mask, 4)
    _add_moments(moments0, j * cells0 + c0, t0, v * v1 * v2, mask, TAPS0)
    _add_moments(moments1, j * cells1 + c1, t1, v * v0 * v2, mask, TAPS1)
    _add_moments(moments2, j * cells2 + c2, t2, v * v0 * v1, mask, 4)


class TritonMarginals(torch.autograd.Function):
    """Mean and variance from values on a lattice and each cell's cubics along its axes."""

    @staticmethod
    def forward(
        ctx: Any,
        values: Float[Tensor, "J ..."],
        positions: Float[Tensor, "B J D"],
        *roots: Float[Tensor, "4 4 J _"],
    ) -> MeanAndVariance:
        """Compute mean and variance in one pass over the rows."""
        num_dims = positions.shape[-1]
        padded = lattice_with_ghosts(values, num_dims).contiguous()
        places = positions.contiguous()
        rows = [rows_by_cell(cubics) for cubics in roots]
        ctx.save_for_backward(values, positions, *roots, padded, places, *rows)
        mean, variance = torch.empty_like(places[..., 0]), torch.empty_like(places[..., 0])
        _run(forward_kernel, places, rows, [padded, *_three(rows), places, mean, variance])
        return mean, variance

    @staticmethod
    def backward(ctx: Any, grad_mean: Tensor, grad_variance: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of values, positions and roots."""
        num_dims = ctx.saved_tensors[1].shape[-1]
        inputs, (padded, places, *rows) = ctx.saved_tensors[: 2 + num_dims], ctx.saved_tensors[2 + num_dims :]
        if torch.is_grad_enabled():
            return differentiable_gradients(eager_lattice, inputs, (grad_mean, grad_variance))
        grad_positions = torch.empty_like(places)
        grad_padded = torch.zeros_like(padded, dtype=torch.float64)
        moments = [r.new_zeros(*r.shape[:2], DEGREE + 1, dtype=torch.float64) for r in rows]
        gradients = [grad_mean.contiguous(), grad_variance.contiguous(), grad_positions, grad_padded]
        _run(backward_kernel, places, rows, [padded, *_three(rows), places, *gradients, *_three(moments)])
        grad_roots = [
            root_gradients(r.double(), m).to(r.dtype).permute(2, 3, 0, 1) for r, m in zip(rows, moments, strict=True)
        ]
        return lattice_fold_ghosts(grad_padded, num_dims).to(padded.dtype), grad_positions, *grad_roots


def _three(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Give the kernel a tensor for each of its axes; it never reads the ones of missing axes."""
    return [*[tensors[0]] * (AXES - len(tensors)), *tensors]


def _run(kernel: Any, positions: Float[Tensor, "B J D"], rows: Sequence[Tensor], arrays: list[Tensor]) -> None:
    num_rows, num_gps, num_dims = positions.shape
    num_points = num_rows * num_gps
    if num_points == 0:  # an empty grid cannot be launched
        return
    cells = [*[1] * (AXES - num_dims), *(r.shape[1] for r in rows)]
    taps = [1 if axis < AXES - num_dims else NEIGHBOURS for axis in range(AXES - 1)]
    grid = (-(-num_points // BLOCK),)
    with torch.cuda.device_of(positions):
        kernel[grid](*arrays, num_points, num_gps, *cells, D=num_dims, TAPS0=taps[0], TAPS1=taps[1], BLOCK=BLOCK)
