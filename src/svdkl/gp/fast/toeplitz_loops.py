"""Compiled loops for CPUs: Cholesky factors of many small matrices, and of Toeplitz matrices by Schur's recursion.

Schur's recursion takes O(m^2), value and gradient. A Toeplitz matrix minus itself, shifted by one down the diagonal,
has rank two: x x^T - y y^T, where x = c / sqrt(c_0) and y is x without its first entry; x is the first column of the
factor. After each step of elimination the rest of the matrix has the same form: x moves on by one and is turned against
y such that y loses one more entry. This is a hyperbolic rotation of cosine 1 / s and tangent r, here in a stable form
(Bojanczyk, Brent, van Dooren and de Hoog, 1987),

    r = y[k + 1] / x[k],  s = sqrt(1 - r^2),  x' = (shifted x - r y) / s,  y' = s y - r x'.

The matrix is positive definite if and only if |r| < 1 in every step. The backward pass goes through the steps in
reverse order, for which we keep all x, the rows of the transposed factor, and all y.
"""

from typing import Any

import numpy as np
import torch

from svdkl.gp.fast.compiling import differentiable_gradients, jit, on_slices
from svdkl.gp.linalg.small import ROUNDING
from svdkl.gp.linalg.toeplitz import dense_factors
from svdkl.shapes import Float, Tensor


@jit
def _columns(left, nothing):
    """Turn covariances into the columns of their factors, in place. The innermost loops go along the matrices."""
    size, _, count = left.shape
    whole, scale = np.empty((size, count), left.dtype), np.empty(count, left.dtype)
    for c in range(size):
        for b in range(count):
            whole[c, b] = left[c, c, b]
    for c in range(size):
        for b in range(count):
            pivot = left[c, c, b]
            scale[b] = 1 / np.sqrt(pivot) if pivot > nothing * whole[c, b] else 0
        for d in range(c):
            for b in range(count):
                left[c, d, b] = 0
        for d in range(c, size):
            for b in range(count):
                left[c, d, b] *= scale[b]
        for d in range(c + 1, size):
            for e in range(d, size):
                for b in range(count):
                    left[d, e, b] -= left[c, d, b] * left[c, e, b]


def compiled_cholesky(covariances: Float[Tensor, "C C B"]) -> Float[Tensor, "C C B"]:
    """Compute :func:`svdkl.gp.linalg.small.small_cholesky` without gradients."""
    columns = covariances.detach().clone(memory_format=torch.contiguous_format)
    array = columns.numpy()
    _columns(array, ROUNDING * np.finfo(array.dtype).eps)
    return columns


@jit
def _forward(columns, uppers, others, failed, start, stop):
    """Factorise. Row k of ``uppers`` holds x from entry k on, row k of ``others`` holds y from entry k + 1 on."""
    m = columns.shape[1]
    for j in range(start, stop):
        upper, other = uppers[j], others[j]
        failed[j] = not 0 < columns[j, 0] < np.inf
        scale = 1 / np.sqrt(columns[j, 0])
        for i in range(m):
            upper[0, i] = other[0, i] = columns[j, i] * scale
        for k in range(m - 1):
            x, y, next_x, next_y = upper[k], other[k], upper[k + 1], other[k + 1]
            tangent = y[k + 1] / x[k]
            rest = (1 - tangent) * (1 + tangent)
            failed[j] |= not rest > 0
            secant = np.sqrt(rest)
            shrink = 1 / secant
            next_x[: k + 1] = 0
            for i in range(k + 1, m):
                next_x[i] = (x[i - 1] - tangent * y[i]) * shrink
                next_y[i] = secant * y[i] - tangent * next_x[i]


@jit
def _backward(columns, uppers, others, grad_uppers, grad_columns, start, stop):
    m = columns.shape[1]
    grad_x, grad_y = np.empty(m), np.empty(m)
    for j in range(start, stop):
        upper, other, grad = uppers[j], others[j], grad_uppers[j]
        grad_x[m - 1], grad_y[m - 1] = grad[m - 1, m - 1], 0.0
        for k in range(m - 2, -1, -1):
            x, y, next_x = upper[k], other[k], upper[k + 1]
            tangent = y[k + 1] / x[k]
            secant = np.sqrt((1 - tangent) * (1 + tangent))
            shrink = 1 / secant
            by_tangent = by_secant = 0.0
            grad_y[k + 1] = 0  # nothing reads the entry that y loses
            for i in range(k + 1, m):
                by_next_x = grad_x[i] - tangent * grad_y[i]
                by_secant += grad_y[i] * y[i] - by_next_x * next_x[i] * shrink
                by_tangent -= grad_y[i] * next_x[i] + by_next_x * y[i] * shrink
                grad_y[i] = secant * grad_y[i] - tangent * by_next_x * shrink
                grad_x[i] = by_next_x * shrink  # the gradient of the shifted x: one place too far
            by_tangent -= by_secant * tangent * shrink
            grad_y[k + 1] += by_tangent / x[k]
            for i in range(k, m - 1):
                grad_x[i] = grad_x[i + 1] + grad[k, i]
            grad_x[m - 1] = grad[k, m - 1]
            grad_x[k] -= by_tangent * tangent / x[k]
        scale = 1 / np.sqrt(columns[j, 0])
        by_scale = 0.0
        for i in range(1, m):
            total = grad_x[i] + grad_y[i]
            by_scale += total * columns[j, i]
            grad_columns[j, i] = total * scale
        grad_columns[j, 0] = 0.5 * scale * (grad_x[0] - by_scale * scale * scale)


class CPUToeplitzCholesky(torch.autograd.Function):
    """Lower factors of Toeplitz matrices, and which matrices have none."""

    @staticmethod
    def forward(ctx: Any, column: Float[Tensor, "J m"]) -> tuple[Float[Tensor, "J m m"], Tensor]:
        """Factorise; where a matrix has no factor, the entries mean nothing."""
        num_gps, size = column.shape
        given = column.contiguous()
        upper, other = (given.new_empty(num_gps, size, size) for _ in range(2))
        failed = given.new_empty(num_gps, dtype=torch.bool)
        on_slices(_forward, given, into=(upper, other, failed), entries=upper.numel())
        ctx.save_for_backward(column, given, upper, other)
        ctx.mark_non_differentiable(failed)
        return upper.mT, failed

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Tensor | None:
        """Return the gradient of the column; only the lower triangle of the factor's gradient counts."""
        column, given, upper, other = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiable_gradients(lambda c: dense_factors(c)[:1], (column,), (grad,))[0]
        result = torch.empty_like(given)
        on_slices(_backward, given, upper, other, grad.mT, into=(result,), entries=upper.numel())
        return result
