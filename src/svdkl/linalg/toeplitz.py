"""Symmetric Toeplitz matrices, held by their first column c: T[i, k] = c[|i - k|]."""

import torch

from svdkl.shapes import Float, Tensor


def toeplitz_dense(column: Float[Tensor, "*batch m"]) -> Float[Tensor, "*batch m m"]:
    """The matrix itself, for axes short enough to be factorised."""
    # Row i is a window into c[m - 1], ..., c[0], ..., c[m - 1], one step further left than that of the row before.
    both_ways = torch.cat([column.flip(-1), column[..., 1:]], -1)
    return both_ways.unfold(-1, column.shape[-1], 1).flip(-2)


def toeplitz_matmul(column: Float[Tensor, "*batch m"], x: Float[Tensor, "*batch m r"]) -> Float[Tensor, "*batch m r"]:
    """T X in O(m log m) a column: T is the corner of a circulant matrix of twice its size."""
    m = column.shape[-1]
    ring = torch.cat([column, column[..., :1], column[..., 1:].flip(-1)], -1)
    spectrum = torch.fft.rfft(ring)
    product = spectrum.unsqueeze(-1) * torch.fft.rfft(x, n=2 * m, dim=-2)
    return torch.fft.irfft(product, n=2 * m, dim=-2)[..., :m, :]
