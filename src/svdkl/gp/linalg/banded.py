"""Lower triangular matrices of few diagonals, held as bands[k, i] = L[i + k, i], with zeros where i + k >= m."""

from typing import Any

import torch

from svdkl.shapes import Float, Tensor


def banded_matmul(bands: Float[Tensor, "*batch w m"], x: Float[Tensor, "*batch m r"]) -> Float[Tensor, "*batch m r"]:
    """Return L X in O(w m) a column: (L X)[i] = sum_k bands[k, i - k] X[i - k]."""
    m, rows = bands.shape[-1], x.movedim(-2, -1)
    total = bands[..., None, 0, :] * rows
    for k in range(1, bands.shape[-2]):
        total = total + torch.nn.functional.pad((bands[..., None, k, :] * rows)[..., : m - k], (k, 0))
    return total.movedim(-1, -2)


def rows_times_banded(
    rows: Float[Tensor, "*batch r m"], bands: Float[Tensor, "*batch w m"]
) -> Float[Tensor, "*batch r m"]:
    """Return X L in O(w m) a row: (X L)[i] = sum_k X[i + k] bands[k, i]."""
    m = bands.shape[-1]
    total = rows * bands[..., None, 0, :]
    for k in range(1, bands.shape[-2]):
        total = total + torch.nn.functional.pad(rows[..., k:] * bands[..., None, k, : m - k], (0, k))
    return total


class _BandedGram(torch.autograd.Function):
    """A hand-written backward pass: autograd would fill a buffer of zeros for each shift."""

    @staticmethod
    def forward(bands: Tensor, width: int) -> Tensor:
        w, m = bands.shape[-2:]
        gram = bands.new_zeros(*bands.shape[:-2], width, m)
        for k in range(min(width, w)):
            for a in range(w - k):
                gram[..., k, a:].addcmul_(bands[..., a, : m - a], bands[..., a + k, : m - a])
        return gram

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (bands,) = ctx.saved_tensors
        w, m = bands.shape[-2:]
        result = torch.zeros_like(bands)
        for k in range(min(grad.shape[-2], w)):
            for a in range(w - k):
                g = grad[..., k, a:]
                result[..., a, : m - a].addcmul_(g, bands[..., a + k, : m - a])
                result[..., a + k, : m - a].addcmul_(g, bands[..., a, : m - a])
        return result, None


def banded_gram(bands: Float[Tensor, "*batch w m"], width: int) -> Float[Tensor, "*batch width m"]:
    """Return the first ``width`` upper diagonals of S = L L^T: gram[k, i] = S[i, i + k].

    L[i, l] = bands[i - l, l], so S[i, i + k] = sum_a bands[a, i - a] bands[a + k, i - a].
    """
    return _BandedGram.apply(bands, width)


class _DenseGram(torch.autograd.Function):
    """A hand-written backward pass: autograd would fill a matrix of zeros for each slice."""

    @staticmethod
    def forward(factor: Tensor, width: int) -> Tensor:
        m = factor.shape[-2]
        grams = [
            torch.nn.functional.pad((factor[..., : m - k, :] * factor[..., k:, :]).sum(-1), (0, k))
            for k in range(width)
        ]
        return torch.stack(grams, -2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        m = factor.shape[-2]
        result = 2 * grad[..., 0, :, None] * factor
        for k in range(1, grad.shape[-2]):
            g = grad[..., k, : m - k, None]
            result[..., : m - k, :].addcmul_(g, factor[..., k:, :])
            result[..., k:, :].addcmul_(g, factor[..., : m - k, :])
        return result, None


def dense_gram(factor: Float[Tensor, "*batch m r"], width: int) -> Float[Tensor, "*batch width m"]:
    """Return the first ``width`` upper diagonals of F F^T for a dense F, in O(width m r)."""
    return _DenseGram.apply(factor, width)


def banded_dense(bands: Float[Tensor, "*batch w m"]) -> Float[Tensor, "*batch m m"]:
    """Write out the matrix, for axes short enough."""
    m = bands.shape[-1]
    dense = torch.diag_embed(bands[..., 0, :])
    for k in range(1, bands.shape[-2]):
        dense = dense + torch.diag_embed(bands[..., k, : m - k], offset=-k)
    return dense
