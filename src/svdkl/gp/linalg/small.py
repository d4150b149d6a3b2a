"""Cholesky factors of many small matrices, and products with triangular matrices that are stored in square ones.

Small matrices lie side by side in memory, so that one operation goes along all of them.
"""

from collections.abc import Sequence
from typing import Any

import torch

from svdkl.shapes import Float, Tensor

ROUNDING = 32  # a pivot of fewer machine epsilons of its variance is rounding: it counts as zero
PIVOT_FLOOR = 1e-12  # least pivot, relative to the diagonal entry: float64's rounding stays below it, gradients finite
BLOCK = 512  # rows at a time: large enough for fast products, small beside axes that are long


def small_cholesky(covariances: Float[Tensor, "C C B"]) -> Float[Tensor, "C C B"]:
    """Return L for each of B matrices L L^T of any rank, column by column: the first index counts columns."""
    traced = torch.compiler.is_compiling() or (torch.is_grad_enabled() and covariances.requires_grad)
    if traced or covariances.device.type != "cpu":
        return eager_cholesky(covariances)
    from svdkl.gp.fast.toeplitz_loops import compiled_cholesky

    return compiled_cholesky(covariances)


def eager_cholesky(covariances: Float[Tensor, "C C B"]) -> Float[Tensor, "C C B"]:
    """Compute :func:`small_cholesky` by tensor operations, many for each column."""
    left, columns, nothing = covariances, [], ROUNDING * torch.finfo(covariances.dtype).eps
    for done, whole in enumerate(covariances.diagonal().unbind(-1)):
        pivot = left[0, 0]
        some = pivot > nothing * whole
        # A column without a pivot is zero, and so is its gradient.
        scale = torch.where(some, torch.where(some, pivot, 1).rsqrt(), 0)
        column = left[:, 0] * scale
        columns.append(torch.nn.functional.pad(column, (0, 0, done, 0)))
        left = left[1:, 1:] - column[1:, None] * column[1:]
    return torch.stack(columns)


def unrolled_cholesky(entries: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
    """Factorise many small positive semi-definite matrices (n about 4) by elementwise operations.

    A LAPACK call for each matrix would cost more than the matrix. Pivots stay above PIVOT_FLOOR times their diagonal
    entry, so that a matrix that is singular to rounding still has a finite factor and finite gradients.

    The lower triangle is entries[i][k], k <= i, where each entry is a tensor over all matrices; so is the result.
    """
    factor: list[list[Tensor]] = []
    for i, row in enumerate(entries):
        done: list[Tensor] = []
        for k in range(i):
            entry = row[k]
            for left, right in zip(done, factor[k], strict=False):
                entry = entry - left * right
            done.append(entry / factor[k][k])
        pivot = row[i]
        for entry in done:
            pivot = pivot - entry.square()
        least = PIVOT_FLOOR * row[i].detach() + torch.finfo(pivot.dtype).tiny
        factor.append([*done, torch.maximum(pivot, least).sqrt()])
    return factor


class _StrictlyLowerMatmul(torch.autograd.Function):
    @staticmethod
    def forward(matrix: Tensor, x: Tensor) -> Tensor:
        m = matrix.shape[-1]
        rows = []
        for start in range(0, m, BLOCK):
            stop = min(start + BLOCK, m)
            corner = matrix[..., start:stop, start:stop].tril(-1)
            rows.append(matrix[..., start:stop, :start] @ x[..., :start, :] + corner @ x[..., start:stop, :])
        return torch.cat(rows, -2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        matrix, x = ctx.saved_tensors
        return (grad @ x.mT).tril(-1), matrix.tril(-1).mT @ grad


def strictly_lower_matmul(
    matrix: Float[Tensor, "*batch m m"], x: Float[Tensor, "*batch m r"]
) -> Float[Tensor, "*batch m r"]:
    """Return tril(matrix, -1) X, block by block: for few columns, the only cost is to read the matrix once."""
    return _StrictlyLowerMatmul.apply(matrix, x)


def positive_lower(raw: Float[Tensor, "*batch m m"]) -> Float[Tensor, "*batch m m"]:
    """Return the lower triangle with softplus of its diagonal, in float64."""
    diagonal = torch.nn.functional.softplus(raw.diagonal(dim1=-2, dim2=-1))
    return (raw.tril(-1) + torch.diag_embed(diagonal)).double()
