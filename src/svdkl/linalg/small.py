"""Very many very small matrices, which lie side by side in memory: operations go along them, not along their sides."""

import torch

from svdkl.shapes import Float, Tensor

ROUNDING = 32  # machine epsilons of a variance: what is left of it below that is rounding


def small_cholesky(covariances: Float[Tensor, "C C B"]) -> Float[Tensor, "C C B"]:
    """The columns of L for each of B matrices L L^T, first index the column's; they need not be of full rank."""
    traced = torch.compiler.is_compiling() or (torch.is_grad_enabled() and covariances.requires_grad)
    if traced or covariances.device.type != "cpu":
        return eager_cholesky(covariances)
    from svdkl.linalg.cpu_small import compiled_cholesky

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
