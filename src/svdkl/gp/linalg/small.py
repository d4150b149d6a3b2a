"""Very many very small matrices, which lie side by side in memory: operations go along them, not along their sides.

Cholesky factors of very small blocks, unrolled.

Lower triangular matrices that are held in square ones, of whose upper triangle nothing is read.
"""

from collections.abc import Sequence
from typing import Any

import torch

from svdkl.shapes import Float, Tensor

ROUNDING = 32  # machine epsilons of a variance: what is left of it below that is rounding

PIVOT_FLOOR = 1e-12  # of a small block, relative to its diagonal entry

BLOCK = 512


def small_cholesky(covariances: Float[Tensor, "C C B"]) -> Float[Tensor, "C C B"]:
    """The columns of L for each of B matrices L L^T, first index the column's; they need not be of full rank."""
    traced = torch.compiler.is_compiling() or (torch.is_grad_enabled() and covariances.requires_grad)
    if traced or covariances.device.type != "cpu":
        return eager_cholesky(covariances)
    from svdkl.gp.fast.toeplitz_loops import compiled_cholesky

    return compiled_cholesky(covariances)


def eager_cholesky(covariances: Float[Tensor, "C C B"]) -> Float[Tensor, "C C B"]:
    """The same by tensor operations, many for each column."""
    left, columns, nothing = covariances, [], ROUNDING * torch.finfo(covariances.dtype).eps
    for done, whole in enumerate(covariances.diagonal().unbind(-1)):
        pivot = left[0, 0]
        some = pivot > nothing * whole
        # What would be divided by nothing is nothing, and has a gradient of nothing.
        scale = torch.where(some, torch.where(some, pivot, 1).rsqrt(), 0)
        column = left[:, 0] * scale
        columns.append(torch.nn.functional.pad(column, (0, 0, done, 0)))
        left = left[1:, 1:] - column[1:, None] * column[1:]
    return torch.stack(columns)


def unrolled_cholesky(entries: Sequence[Sequence[Tensor]], floor: float = PIVOT_FLOOR) -> list[list[Tensor]]:
    """Lower Cholesky factors of many small positive semi-definite matrices (n about 4), by elementwise operations.

    A LAPACK call for each matrix would cost more than the matrix. Pivots are kept above ``floor`` times their diagonal
    entry, so that a matrix that is singular to rounding still has a finite factor and finite gradients.

    Parameters
    ----------
    entries
        entries[i][k], k <= i: the lower triangle, each entry a tensor of all matrices' own.

    Returns
    -------
    list of list of Tensor
        The factor, in the same form.
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
        least = floor * row[i].detach() + torch.finfo(pivot.dtype).tiny
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
    """tril(matrix, -1) X, block by block: for few columns, reading the matrix once is all the cost."""
    return _StrictlyLowerMatmul.apply(matrix, x)


def positive_lower(raw: Float[Tensor, "*batch m m"]) -> Float[Tensor, "*batch m m"]:
    """The lower triangle with softplus of its diagonal, in float64."""
    diagonal = torch.nn.functional.softplus(raw.diagonal(dim1=-2, dim2=-1))
    return (raw.tril(-1) + torch.diag_embed(diagonal)).double()
