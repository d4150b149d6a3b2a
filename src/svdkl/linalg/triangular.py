"""Lower triangular matrices that are held in square ones, of whose upper triangle nothing is read."""

from typing import Any

import torch

from svdkl.shapes import Float, Tensor

BLOCK = 512


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
