"""Marginals along one axis in one pass over the positions, value and gradient: the compiled loop for CPUs.

The eager path reads and writes some forty tensors of the size of the positions, forward and back; this one reads the
positions and writes the two results.
"""

from functools import partial
from itertools import pairwise
from typing import Any, no_type_check

import torch

from svdkl.interpolation.backward import DEGREE, POWERS, differentiable_gradients, root_gradients, rows_by_cell
from svdkl.interpolation.compiled import jit, num_threads, on_threads
from svdkl.interpolation.eager import MeanAndVariance, line_marginals
from svdkl.shapes import Float, Tensor

POINTS_PER_THREAD = 131_072  # below this a thread costs more than it brings
CUBICS = 5


# The polynomials are written out, since loops over their coefficients would not be unrolled.


@jit
@no_type_check  # nothing may wrap what numba compiles
def _forward(table, positions, mean, variance, num_cells, start, stop):
    """A row of the table: the cubic of the mean, then the four whose squares make the variance, lowest power first."""
    real = positions.dtype.type
    for b in range(start, stop):
        for j in range(positions.shape[1]):
            p = min(max(positions[b, j], real(0)), real(num_cells))
            c = min(int(p), num_cells - 1) if p == p else 0
            t = p - real(c)
            t2 = t * t
            t3 = t2 * t
            r = table[j * num_cells + c]
            y1 = r[4] + r[5] * t + r[6] * t2 + r[7] * t3
            y2 = r[8] + r[9] * t + r[10] * t2 + r[11] * t3
            y3 = r[12] + r[13] * t + r[14] * t2 + r[15] * t3
            y4 = r[16] + r[17] * t + r[18] * t2 + r[19] * t3
            mean[b, j] = r[0] + r[1] * t + r[2] * t2 + r[3] * t3
            variance[b, j] = y1 * y1 + y2 * y2 + y3 * y3 + y4 * y4


@jit
@no_type_check
def _backward(slopes, positions, grad_mean, grad_variance, grad_positions, moments, num_cells, start, stop):
    """A row of slopes: the derivatives of the mean (degree 2) and of the variance (degree 5), lowest power first.

    What the table's gradient needs to know of the points in a cell are moments: the sums of grad_mean t^p, p = 0 ... 3,
    and of grad_variance t^p, p = 0 ... 6.
    """
    real = positions.dtype.type
    for b in range(start, stop):
        for j in range(positions.shape[1]):
            p = min(max(positions[b, j], real(0)), real(num_cells))
            c = min(int(p), num_cells - 1) if p == p else 0
            t = p - real(c)
            s = slopes[j * num_cells + c]
            g = grad_mean[b, j]
            v = grad_variance[b, j]
            slope = g * (s[0] + t * (s[1] + t * s[2]))
            slope += v * (s[3] + t * (s[4] + t * (s[5] + t * (s[6] + t * (s[7] + t * s[8])))))
            beyond = positions[b, j] < real(0) or positions[b, j] > real(num_cells)
            grad_positions[b, j] = real(0) if beyond else slope
            m = moments[j * num_cells + c]
            t2 = t * t
            t3 = t2 * t
            m[0] += g
            m[1] += g * t
            m[2] += g * t2
            m[3] += g * t3
            m[4] += v
            m[5] += v * t
            m[6] += v * t2
            m[7] += v * t3
            v *= t3
            m[8] += v * t
            m[9] += v * t2
            m[10] += v * t3


class CPULineMarginals(torch.autograd.Function):
    """Mean and variance along one axis from per-cell cubics: the first is the mean, the others' squares add up."""

    @staticmethod
    def forward(ctx: Any, table: Float[Tensor, "5 4 J cells"], positions: Float[Tensor, "B J"]) -> MeanAndVariance:
        """Both in one pass over the rows."""
        num_cells = table.shape[-1]
        rows = rows_by_cell(table).view(-1, CUBICS, POWERS)
        positions = positions.contiguous()
        mean, variance = torch.empty_like(positions), torch.empty_like(positions)
        arrays = [x.detach().numpy() for x in (rows.flatten(1), positions, mean, variance)]
        runs = _runs(positions)
        on_threads([partial(_forward, *arrays, num_cells, *run) for run in runs], len(runs))
        ctx.save_for_backward(table, rows, positions)
        return mean, variance

    @staticmethod
    def backward(ctx: Any, grad_mean: Tensor, grad_variance: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of table and positions. Each thread adds up moments of its own, in float64."""
        table, rows, positions = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiable_gradients(line_marginals, (table, positions), (grad_mean, grad_variance))
        num_gps, num_cells = table.shape[-2:]
        wide = rows.double()
        grad_positions = torch.empty_like(positions)
        runs = _runs(positions)
        moments = wide.new_zeros(len(runs), len(rows), POWERS + DEGREE + 1)
        slopes = _slopes(wide).to(rows.dtype)
        inputs = [x.contiguous().numpy() for x in (slopes, positions, grad_mean, grad_variance, grad_positions)]
        sums = zip(moments.numpy(), runs, strict=True)
        on_threads([partial(_backward, *inputs, own, num_cells, *run) for own, run in sums], len(runs))

        total = moments.sum(0)
        grad_roots = root_gradients(wide[:, 1:], total[:, POWERS:])
        grad_rows = torch.cat([total[:, None, :POWERS], grad_roots], 1).to(rows.dtype)
        return grad_rows.view(num_gps, num_cells, CUBICS, POWERS).permute(2, 3, 0, 1), grad_positions


def _runs(positions: Float[Tensor, "B J"]) -> list[tuple[int, int]]:
    """The rows cut into one run for each thread."""
    num_rows, count = len(positions), num_threads(positions.numel(), POINTS_PER_THREAD)
    bounds = [num_rows * i // count for i in range(count + 1)]
    return list(pairwise(bounds))


def _slopes(rows: Float[Tensor, "cells 5 4"]) -> Float[Tensor, "cells 9"]:
    """Coefficients of the derivatives of the mean and of the variance, which is a polynomial of degree 6."""
    mean, roots = rows[:, 0], rows[:, 1:]
    products = torch.einsum("ckp,ckq->cpq", roots, roots)
    variance = rows.new_zeros(len(rows), DEGREE + 1)
    for p in range(POWERS):
        variance[:, p : p + POWERS] += products[:, p]
    power = torch.arange(1, DEGREE + 1, dtype=rows.dtype)
    return torch.cat([mean[:, 1:] * power[: POWERS - 1], variance[:, 1:] * power], 1)
