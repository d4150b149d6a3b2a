"""Compiled loops for CPUs: marginals along one axis, value and gradient in one pass over the positions each.

The eager form reads and writes some forty tensors of the size of the positions, forward and back; the loop reads the
positions and writes the two results. Backward, the gradient of a cell's cubics needs only moments of the points in the
cell: sums of gradients times t^p. Polynomials are written out, since the compiler would not unroll loops over their
coefficients.
"""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from svdkl.gp.fast.compiling import differentiable_gradients, jit, num_threads, on_threads
from svdkl.gp.interpolation import MeanAndVariance, eager_lattice
from svdkl.shapes import Float, Tensor

POWERS = 4  # a cubic has the powers 1, t, t^2, t^3
DEGREE = 2 * (POWERS - 1)  # the variance along one axis is a sum of squared cubics
POINTS_PER_THREAD = 131_072  # with fewer points a thread takes longer to start than it saves
MOMENTS = POWERS + DEGREE + 1  # sums a cell needs: of gradients of the mean, of degree 3, and of the variance
SLOPES = POWERS - 1 + DEGREE  # coefficients of the derivatives of mean and variance


def rows_by_cell(roots: Float[Tensor, "K 4 J cells"]) -> Float[Tensor, "J cells K 4"]:
    """Reorder roots such that all numbers that a point reads lie side by side in memory."""
    return roots.permute(2, 3, 0, 1).contiguous()


def root_gradients(
    rows: Float[Tensor, "*batch K 4"], moments: Float[Tensor, "*batch 7"]
) -> Float[Tensor, "*batch K 4"]:
    """Return the gradient of a cell's roots, from the sums of grad_variance t^p, p = 0 ... 6, over its points."""
    # d variance / d root_k[p] = 2 t^p sum_q root_k[q] t^q
    windows = moments.unfold(-1, POWERS, 1)  # windows[p, q] is the moment of t^(p + q)
    return 2 * torch.einsum("...kq,...pq->...kp", rows, windows)


@jit
def line_marginals(cubics, rows, positions, mean, variance, num_cells, start, stop):
    """Evaluate, in each point's cell, the cubic of the mean and the four whose squares make the variance."""
    real = positions.dtype.type
    for b in range(start, stop):
        for j in range(positions.shape[1]):
            p = min(max(positions[b, j], real(0)), real(num_cells))
            c = min(int(p), num_cells - 1) if p == p else 0
            t = p - real(c)
            t2 = t * t
            t3 = t2 * t
            u = cubics[j * num_cells + c]
            r = rows[j * num_cells + c]
            y1 = r[0] + r[1] * t + r[2] * t2 + r[3] * t3
            y2 = r[4] + r[5] * t + r[6] * t2 + r[7] * t3
            y3 = r[8] + r[9] * t + r[10] * t2 + r[11] * t3
            y4 = r[12] + r[13] * t + r[14] * t2 + r[15] * t3
            mean[b, j] = u[0] + u[1] * t + u[2] * t2 + u[3] * t3
            variance[b, j] = y1 * y1 + y2 * y2 + y3 * y3 + y4 * y4


@jit
def _backward(slopes, positions, grad_mean, grad_variance, grad_positions, moments, num_cells, start, stop):
    """Compute gradients of positions, and for each cell sums of grad_mean t^p, p < 4, and grad_variance t^p, p < 7."""
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


@jit
def _cubics(values, cubics):
    """Compute the cubic of the mean in each cell, lowest power first."""
    num_gps, size = values.shape
    for j in range(num_gps):
        u = values[j]
        for c in range(size - 1):
            p1, p2 = u[c], u[c + 1]
            p0 = u[c - 1] if c > 0 else 3 * u[0] - 3 * u[1] + u[2]
            p3 = u[c + 2] if c < size - 2 else 3 * u[size - 1] - 3 * u[size - 2] + u[size - 3]
            r = cubics[j * (size - 1) + c]
            r[0] = p1
            r[1] = 0.5 * (p2 - p0)
            r[2] = p0 - 2.5 * p1 + 2.0 * p2 - 0.5 * p3
            r[3] = 0.5 * (p3 - p0) + 1.5 * (p1 - p2)


@jit
def _slopes(cubics, rows, slopes):
    """Compute the derivatives of the mean (degree 2) and of the variance (degree 5), lowest power first."""
    for cell in range(len(rows)):
        m, r, s = cubics[cell], rows[cell], slopes[cell]
        s[0] = m[1]
        s[1] = 2 * m[2]
        s[2] = 3 * m[3]
        v1 = v2 = v3 = v4 = v5 = v6 = 0.0
        for k in range(0, 16, 4):
            c0, c1, c2, c3 = np.float64(r[k]), np.float64(r[k + 1]), np.float64(r[k + 2]), np.float64(r[k + 3])
            v1 += c0 * c1
            v2 += 2 * c0 * c2 + c1 * c1
            v3 += c0 * c3 + c1 * c2
            v4 += 2 * c1 * c3 + c2 * c2
            v5 += c2 * c3
            v6 += c3 * c3
        s[3] = 2 * v1
        s[4] = 2 * v2
        s[5] = 6 * v3
        s[6] = 4 * v4
        s[7] = 10 * v5
        s[8] = 6 * v6


@jit
def _tables_back(moments, rows, grad_values, grad_rows):
    """Compute the gradients of the values on the axis and of the roots, from the moments of all threads."""
    num_gps, size = grad_values.shape
    m = np.empty(MOMENTS)
    for j in range(num_gps):
        u = grad_values[j]
        for c in range(size - 1):
            cell = j * (size - 1) + c
            m[:] = moments[0, cell]
            for thread in range(1, len(moments)):
                m += moments[thread, cell]
            p0 = m[2] - 0.5 * (m[1] + m[3])
            p3 = 0.5 * (m[3] - m[2])
            u[c] += m[0] - 2.5 * m[2] + 1.5 * m[3]
            u[c + 1] += 0.5 * m[1] + 2.0 * m[2] - 1.5 * m[3]
            if c > 0:
                u[c - 1] += p0
            else:
                u[0] += 3 * p0
                u[1] -= 3 * p0
                u[2] += p0
            if c < size - 2:
                u[c + 2] += p3
            else:
                u[size - 1] += 3 * p3
                u[size - 2] -= 3 * p3
                u[size - 3] += p3
            r, g = rows[cell], grad_rows[cell]
            for k in range(0, 16, 4):  # d variance / d root[p] = 2 t^p sum_q root[q] t^q
                c0, c1, c2, c3 = 2 * r[k], 2 * r[k + 1], 2 * r[k + 2], 2 * r[k + 3]
                g[k] = c0 * m[4] + c1 * m[5] + c2 * m[6] + c3 * m[7]
                g[k + 1] = c0 * m[5] + c1 * m[6] + c2 * m[7] + c3 * m[8]
                g[k + 2] = c0 * m[6] + c1 * m[7] + c2 * m[8] + c3 * m[9]
                g[k + 3] = c0 * m[7] + c1 * m[8] + c2 * m[9] + c3 * m[10]


class CPULineMarginals(torch.autograd.Function):
    """Mean and variance along one axis, from values on it and each cell's cubics."""

    @staticmethod
    def forward(
        ctx: Any, values: Float[Tensor, "J m"], positions: Float[Tensor, "B J 1"], roots: Float[Tensor, "4 4 J cells"]
    ) -> MeanAndVariance:
        """Compute mean and variance in one pass over the rows."""
        num_gps, num_cells = roots.shape[-2:]
        rows = rows_by_cell(roots).view(num_gps * num_cells, -1)
        cubics = values.new_empty(len(rows), POWERS)
        places = positions.contiguous().view(-1, num_gps)
        mean, variance = torch.empty_like(places), torch.empty_like(places)
        ctx.save_for_backward(values, positions, roots, cubics, rows, places)

        u, *arrays = (x.detach().numpy() for x in (values.contiguous(), cubics, rows, places, mean, variance))
        _cubics(u, arrays[0])
        runs = _runs(places)
        on_threads([partial(line_marginals, *arrays, num_cells, *run) for run in runs], len(runs))
        return mean, variance

    @staticmethod
    def backward(ctx: Any, grad_mean: Tensor, grad_variance: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of values, positions and roots. Each thread sums its own moments, in float64."""
        *inputs, cubics, rows, places = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiable_gradients(eager_lattice, inputs, (grad_mean, grad_variance))
        values, positions, roots = inputs
        num_gps, num_cells = roots.shape[-2:]
        runs = _runs(places)
        moments = rows.new_zeros(len(runs), len(rows), MOMENTS, dtype=torch.float64)
        slopes = rows.new_empty(len(rows), SLOPES)
        grad_values = torch.zeros_like(values, dtype=torch.float64, memory_format=torch.contiguous_format)
        grad_rows, grad_places = torch.empty_like(rows), torch.empty_like(places)

        r, s, sums, by_values, by_rows = (x.numpy() for x in (rows, slopes, moments, grad_values, grad_rows))
        points = [x.contiguous().numpy() for x in (places, grad_mean, grad_variance, grad_places)]
        _slopes(cubics.numpy(), r, s)
        parts = zip(sums, runs, strict=True)
        on_threads([partial(_backward, s, *points, own, num_cells, *run) for own, run in parts], len(runs))
        _tables_back(sums, r, by_values, by_rows)
        grad_roots = grad_rows.view(num_gps, num_cells, POWERS, POWERS).permute(2, 3, 0, 1)
        return grad_values.to(values.dtype), grad_places.view_as(positions), grad_roots


def _runs(positions: Float[Tensor, "B J"]) -> list[tuple[int, int]]:
    """Cut the rows into one run for each thread."""
    num_rows, count = len(positions), num_threads(positions.numel(), POINTS_PER_THREAD)
    bounds = [num_rows * i // count for i in range(count + 1)]
    return list(pairwise(bounds))
