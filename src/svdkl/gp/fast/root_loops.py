"""Compiled loops for CPUs: the cubics of all cells, value and gradient in one pass; tensor operations take 200.

A cell's 4 x 4 block is factorised number by number, with all blocks of a GP side by side: entry (a, b) of a lower
triangle is row a (a + 1) / 2 + b of an array whose columns are the blocks, and the compiler works on several at a time.
"""

from typing import Any

import numpy as np
import torch

from svdkl.gp.fast.compiling import differentiable_gradients, jit
from svdkl.gp.linalg.small import PIVOT_FLOOR
from svdkl.gp.marginals import eager_cell_roots
from svdkl.shapes import Float, Tensor

ENTRIES = 10  # the lower triangle of a 4 x 4 block has so many


@jit
def _pivot(rest, entry, floor, tiny):
    """Keep a pivot, the rest of a diagonal entry, above a small share of the entry; a NaN stays one."""
    least = floor * entry + tiny
    return least if rest <= least else rest


@jit
def _factorise(diagonals, factors, floor, tiny):
    """Factorise all blocks of one GP: ``diagonals`` is (4, m), ``factors`` (10, m - 3)."""
    d0, d1, d2, d3 = diagonals[0], diagonals[1], diagonals[2], diagonals[3]
    for i in range(factors.shape[1]):
        l00 = np.sqrt(_pivot(d0[i], d0[i], floor, tiny))
        l10 = d1[i] / l00
        l11 = np.sqrt(_pivot(d0[i + 1] - l10 * l10, d0[i + 1], floor, tiny))
        l20 = d2[i] / l00
        l21 = (d1[i + 1] - l20 * l10) / l11
        l22 = np.sqrt(_pivot(d0[i + 2] - l20 * l20 - l21 * l21, d0[i + 2], floor, tiny))
        l30 = d3[i] / l00
        l31 = (d2[i + 1] - l30 * l10) / l11
        l32 = (d1[i + 2] - l30 * l20 - l31 * l21) / l22
        l33 = np.sqrt(_pivot(d0[i + 3] - l30 * l30 - l31 * l31 - l32 * l32, d0[i + 3], floor, tiny))
        factors[0, i] = l00
        factors[1, i] = l10
        factors[2, i] = l11
        factors[3, i] = l20
        factors[4, i] = l21
        factors[5, i] = l22
        factors[6, i] = l30
        factors[7, i] = l31
        factors[8, i] = l32
        factors[9, i] = l33


@jit
def _factorise_back(diagonals, factors, grads, floor, tiny):
    """Turn gradients of the factors into gradients of the blocks, in place."""
    d0 = diagonals[0]
    for i in range(factors.shape[1]):
        l00, l10, l11, l20, l21 = factors[0, i], factors[1, i], factors[2, i], factors[3, i], factors[4, i]
        l22, l30, l31, l32, l33 = factors[5, i], factors[6, i], factors[7, i], factors[8, i], factors[9, i]
        g00, g10, g11, g20, g21 = grads[0, i], grads[1, i], grads[2, i], grads[3, i], grads[4, i]
        g22, g30, g31, g32, g33 = grads[5, i], grads[6, i], grads[7, i], grads[8, i], grads[9, i]
        # A pivot that was lifted to its floor has no gradient.
        r1 = d0[i + 1] - l10 * l10
        r2 = d0[i + 2] - l20 * l20 - l21 * l21
        r3 = d0[i + 3] - l30 * l30 - l31 * l31 - l32 * l32
        h0 = 0.0 if d0[i] <= floor * d0[i] + tiny else 0.5 / l00
        h1 = 0.0 if r1 <= floor * d0[i + 1] + tiny else 0.5 / l11
        h2 = 0.0 if r2 <= floor * d0[i + 2] + tiny else 0.5 / l22
        h3 = 0.0 if r3 <= floor * d0[i + 3] + tiny else 0.5 / l33
        g33 *= h3
        g32 = (g32 - 2 * g33 * l32) / l22
        g31 = (g31 - 2 * g33 * l31 - g32 * l21) / l11
        g30 = (g30 - 2 * g33 * l30 - g32 * l20 - g31 * l10) / l00
        g22 = (g22 - g32 * l32) * h2
        g21 = (g21 - g32 * l31 - 2 * g22 * l21) / l11
        g20 = (g20 - g32 * l30 - 2 * g22 * l20 - g21 * l10) / l00
        g11 = (g11 - g31 * l31 - g21 * l21) * h1
        g10 = (g10 - g31 * l30 - g21 * l20 - 2 * g11 * l10) / l00
        g00 = (g00 - g30 * l30 - g20 * l20 - g10 * l10) * h0
        grads[0, i] = g00
        grads[1, i] = g10
        grads[2, i] = g11
        grads[3, i] = g20
        grads[4, i] = g21
        grads[5, i] = g22
        grads[6, i] = g30
        grads[7, i] = g31
        grads[8, i] = g32
        grads[9, i] = g33


@jit
def _store_cubic(out, k, p0, p1, p2, p3):
    """Store the cubic through four values, t = 0 at p1 and 1 at p2, as cubic_coefficients does."""
    out[k] = p1
    out[k + 1] = 0.5 * (p2 - p0)
    out[k + 2] = p0 - 2.5 * p1 + 2.0 * p2 - 0.5 * p3
    out[k + 3] = 0.5 * (p3 - p0) + 1.5 * (p1 - p2)


@jit
def _points_back(grad, k):
    """Return the gradients of a cubic's four values from the gradients of its coefficients."""
    g0, g1, g2, g3 = np.float64(grad[k]), np.float64(grad[k + 1]), np.float64(grad[k + 2]), np.float64(grad[k + 3])
    return (
        g2 - 0.5 * (g1 + g3),
        g0 - 2.5 * g2 + 1.5 * g3,
        0.5 * g1 + 2.0 * g2 - 1.5 * g3,
        0.5 * (g3 - g2),
    )


@jit
def _column(factors, r, i):
    """Return column r of a block's factor."""
    return (
        factors[0, i] if r == 0 else 0.0,
        (factors[1, i] if r == 0 else factors[2, i]) if r <= 1 else 0.0,
        factors[3 + r, i] if r <= 2 else 0.0,
        factors[6 + r, i],
    )


@jit
def _add_column(grads, r, i, c0, c1, c2, c3):
    if r == 0:
        grads[0, i] += c0
    if r <= 1:
        grads[1 + r, i] += c1
    if r <= 2:
        grads[3 + r, i] += c2
    grads[6 + r, i] += c3


@jit
def _forward(diagonals, factors, roots, floor, tiny):
    """Compute ``roots``: in each cell's row the coefficients of the four cubics in turn, lowest power first."""
    last = factors.shape[2] - 1
    for j in range(len(diagonals)):
        _factorise(diagonals[j], factors[j], floor, tiny)
        cells = roots[j]
        for r in range(4):
            k = 4 * r
            for i in range(last + 1):
                c0, c1, c2, c3 = _column(factors[j], r, i)
                _store_cubic(cells[i + 1], k, c0, c1, c2, c3)
            # The first and the last cell read the ghost point beyond the end instead of the far neighbour.
            c0, c1, c2, _ = _column(factors[j], r, 0)
            _store_cubic(cells[0], k, 3 * c0 - 3 * c1 + c2, c0, c1, c2)
            _, c1, c2, c3 = _column(factors[j], r, last)
            _store_cubic(cells[last + 2], k, c1, c2, c3, 3 * c3 - 3 * c2 + c1)


@jit
def _backward(diagonals, factors, grad_roots, grad_diagonals, floor, tiny):
    last = factors.shape[2] - 1
    grads = np.empty_like(factors[0])
    for j in range(len(diagonals)):
        cells = grad_roots[j]
        grads[:] = 0
        for r in range(4):
            k = 4 * r
            for i in range(last + 1):
                p0, p1, p2, p3 = _points_back(cells[i + 1], k)
                _add_column(grads, r, i, p0, p1, p2, p3)
            before, p0, p1, p2 = _points_back(cells[0], k)
            _add_column(grads, r, 0, p0 + 3 * before, p1 - 3 * before, p2 + before, 0.0)
            p1, p2, p3, after = _points_back(cells[last + 2], k)
            _add_column(grads, r, last, 0.0, p1 + after, p2 - 3 * after, p3 + 3 * after)
        _factorise_back(diagonals[j], factors[j], grads, floor, tiny)
        out = grad_diagonals[j]
        for a in range(4):
            for b in range(a + 1):
                entry, band = grads[a * (a + 1) // 2 + b], out[a - b]
                for i in range(last + 1):
                    band[i + b] += entry[i]


class CPUCellRoots(torch.autograd.Function):
    """Four cubics a cell from a covariance's central diagonals; numbers that a point reads lie side by side."""

    @staticmethod
    def forward(ctx: Any, diagonals: Float[Tensor, "J 4 m"], dtype: torch.dtype) -> Float[Tensor, "4 4 J cells"]:
        """Compute the cubics of all GPs in one pass."""
        num_gps, _, size = diagonals.shape
        given = diagonals.contiguous()
        factors = given.new_empty(num_gps, ENTRIES, size - 3)
        roots = given.new_empty(num_gps, size - 1, 4, 4, dtype=dtype)
        ctx.save_for_backward(diagonals, given, factors)
        arrays = (x.detach().numpy() for x in (given, factors, roots.view(num_gps, size - 1, 16)))
        _forward(*arrays, PIVOT_FLOOR, torch.finfo(given.dtype).tiny)
        return roots.permute(2, 3, 0, 1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None]:
        """Return the gradient of the diagonals."""
        diagonals, given, factors = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiable_gradients(lambda d: (eager_cell_roots(d),), (diagonals,), (grad,))[0], None
        result = torch.zeros_like(given)
        grad_roots = grad.permute(2, 3, 0, 1).contiguous().flatten(2)
        arrays = (x.numpy() for x in (given, factors, grad_roots, result))
        _backward(*arrays, PIVOT_FLOOR, torch.finfo(given.dtype).tiny)
        return result, None
