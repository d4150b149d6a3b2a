"""Symmetric circulant matrices: C[i, k] = c[(i - k) mod m] with c[k] = c[m - k].

The Fourier basis diagonalises them all, so that products, solves, powers and determinants cost O(m log m). They are
held by their real spectrum, of length m // 2 + 1 since it is symmetric too.
"""

from typing import Any

import torch

from svdkl.shapes import Float, Tensor


def even_transform(half: Float[Tensor, "*batch half"], m: int) -> Float[Tensor, "*batch half"]:
    """Fourier transform of an even sequence of length m, even too: from and to the first m // 2 + 1 entries."""
    return m * torch.fft.irfft(half, n=m)[..., : m // 2 + 1]


def circulant_spectrum(column: Float[Tensor, "*batch m"]) -> Float[Tensor, "*batch half"]:
    """Eigenvalues of the circulant matrix with this first column."""
    m = column.shape[-1]
    return even_transform(column[..., : m // 2 + 1], m)


def circulant_column(spectrum: Float[Tensor, "*batch half"], m: int) -> Float[Tensor, "*batch m"]:
    """First column of the circulant matrix with these eigenvalues."""
    return torch.fft.irfft(spectrum, n=m)


class _CirculantMatmul(torch.autograd.Function):
    """C X. Its backward pass is C again, as C is symmetric; autograd would go through transforms of full length."""

    @staticmethod
    def forward(spectrum: Tensor, x: Tensor) -> Tensor:
        return torch.fft.irfft(spectrum.unsqueeze(-1) * torch.fft.rfft(x, dim=-2), n=x.shape[-2], dim=-2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor]:
        spectrum, x = ctx.saved_tensors
        m = x.shape[-2]
        transformed = torch.fft.rfft(grad, dim=-2)
        grad_x = torch.fft.irfft(spectrum.unsqueeze(-1) * transformed, n=m, dim=-2)
        grad_spectrum = None
        if ctx.needs_input_grad[0]:
            # Parseval: <grad, C x> = (1 / m) sum_f counts_f spectrum_f Re(conj(grad_f) x_f), summed over columns.
            products = (transformed.conj() * torch.fft.rfft(x, dim=-2)).real.sum(-1)
            grad_spectrum = mirror_counts(m, spectrum) * products / m
        return grad_spectrum, grad_x


def circulant_matmul(
    spectrum: Float[Tensor, "*batch half"], x: Float[Tensor, "*batch m r"]
) -> Float[Tensor, "*batch m r"]:
    """C X."""
    return _CirculantMatmul.apply(spectrum, x)


def circulant_solve(
    spectrum: Float[Tensor, "*batch half"], x: Float[Tensor, "*batch m r"]
) -> Float[Tensor, "*batch m r"]:
    """C^-1 X."""
    return circulant_matmul(1 / spectrum, x)


def circulant_sqrt(spectrum: Float[Tensor, "*batch half"]) -> Float[Tensor, "*batch half"]:
    """Spectrum of the symmetric square root of C."""
    return spectrum.sqrt()


def circulant_log_det(spectrum: Float[Tensor, "*batch half"], m: int) -> Float[Tensor, "*batch"]:
    """Log |C|; each eigenvalue counts twice, but for the first and, at even m, the last."""
    return (mirror_counts(m, spectrum) * spectrum.log()).sum(-1)


def mirror_counts(m: int, like: Tensor) -> Float[Tensor, "half"]:
    """How often each entry of the half spectrum stands in the whole one."""
    counts = torch.full((m // 2 + 1,), 2.0, dtype=like.dtype, device=like.device)
    counts[0] = 1.0
    if m % 2 == 0:
        counts[-1] = 1.0
    return counts
