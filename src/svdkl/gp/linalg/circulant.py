"""Symmetric circulant matrices: C[i, k] = c[(i - k) mod m] with c[k] = c[m - k].

The Fourier basis diagonalises them all, so products, solves, powers and determinants cost O(m log m). We hold them by
their real spectrum, of length m // 2 + 1 since it is symmetric too.

`circulant_congruence` gives diagonals of C W C for a banded symmetric W without forming either. With
W[l, l + o] = w_o[l] and C[i, l] = c[i - l],

    (C W C)[i, i + k] = sum_o sum_l c[i - l] c[i + k - l - o] w_o[l]:

for each offset o, above and below the diagonal, the circular convolution of w_o with p_s[n] = c[n] c[n + s], s = k - o.
A diagonal is symmetric about its midpoint: c is even, so p_s is even about its midpoint, and W[l, l - o] = w_o[l - o].
Measured from midpoints, half a step for each offset, all p_s have real transforms, and offsets o and -o share theirs:

    D_k(f) = sum_{o >= 0} b_ko(f) w_o(f),   b_ko = p_|k - o| + p_(k + o),   b_k0 = p_k.

This takes one transform of each product, of each given and of each wanted diagonal: O(m log m).
"""

from typing import Any

import torch

from svdkl.shapes import Float, Tensor


def even_transform(half: Float[Tensor, "*batch half"], m: int) -> Float[Tensor, "*batch half"]:
    """Fourier-transform an even sequence; it and the result are held by their first m // 2 + 1 entries of m."""
    return m * torch.fft.irfft(half, n=m)[..., : m // 2 + 1]


def circulant_column(spectrum: Float[Tensor, "*batch half"], m: int) -> Float[Tensor, "*batch m"]:
    """Return the first column of the circulant matrix with these eigenvalues."""
    return torch.fft.irfft(spectrum, n=m)


class _CirculantMatmul(torch.autograd.Function):
    """The product C X. C is symmetric, so the backward pass is C again; autograd would take full-length transforms."""

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
    """Return C X, for C held by its spectrum."""
    return _CirculantMatmul.apply(spectrum, x)


def circulant_log_det(spectrum: Float[Tensor, "*batch half"], m: int) -> Float[Tensor, "*batch"]:
    """Return log |C|. Each eigenvalue counts twice, except the first and, for even m, the last."""
    return (mirror_counts(m, spectrum) * spectrum.log()).sum(-1)


def mirror_counts(m: int, like: Tensor) -> Float[Tensor, "half"]:
    """Count how often each entry of the half spectrum stands in the whole one."""
    counts = torch.full((m // 2 + 1,), 2.0, dtype=like.dtype, device=like.device)
    counts[0] = 1.0
    if m % 2 == 0:
        counts[-1] = 1.0
    return counts


def _half_steps(m: int, count: int, like: Tensor) -> Tensor:
    """Return exp(-i pi f s / m) for s < count, the factor of frequency f if the origin moves on by s / 2."""
    angle = torch.arange(m // 2 + 1, dtype=like.dtype, device=like.device) * (-torch.pi / m)
    step = torch.polar(torch.ones_like(angle), angle)
    steps = [torch.ones_like(step)]
    for _ in range(count - 1):
        steps.append(steps[-1] * step)
    return torch.stack(steps)


def _parts(diagonals: Tensor, steps: Tensor) -> Tensor:
    """Transform diagonals from midpoints; real and imaginary parts apart, as torch is slow at real times complex."""
    transformed = torch.fft.rfft(diagonals) * steps[: diagonals.shape[-2]]
    return torch.stack([transformed.real, transformed.imag])


def _diagonals(parts: list[Tensor], steps: Tensor, m: int) -> Tensor:
    """Invert :func:`_parts`."""
    stacked = torch.stack(parts, -2)
    return torch.fft.irfft(torch.complex(stacked[0], stacked[1]) * steps[: len(parts)].conj(), n=m)


def _products(c: Tensor, steps: Tensor) -> tuple[Tensor, ...]:
    """Transform p_s[n] = c[n] c[n + s] from midpoints, around the ring: real, since p_s is even about them."""
    products = torch.stack([c * c.roll(-s, -1) for s in range(len(steps))], -2)
    transformed = torch.fft.rfft(products)
    return (transformed.real * steps.real - transformed.imag * steps.imag).unbind(-2)


def _both(p: tuple[Tensor, ...], k: int, o: int) -> Tensor:
    """Return b_ko of the module's equation."""
    return p[k] if o == 0 else p[abs(k - o)] + p[k + o]


class _Congruence(torch.autograd.Function):
    """The backward pass has the forward's form; autograd would take transforms of full length."""

    @staticmethod
    def forward(c: Tensor, bands: Tensor, width: int) -> Tensor:
        w, m = bands.shape[-2:]
        steps = _half_steps(m, w + width - 1, bands)
        p, given = _products(c, steps), _parts(bands, steps).unbind(-2)
        wanted = []
        for k in range(width):
            total = p[k] * given[0]
            for o in range(1, w):
                total.addcmul_(_both(p, k, o), given[o])
            wanted.append(total)
        return _diagonals(wanted, steps, m)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, int], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        c, bands = ctx.saved_tensors
        w, m = bands.shape[-2:]
        width = grad.shape[-2]
        steps = _half_steps(m, w + width - 1, bands)
        wanted = _parts(grad, steps).unbind(-2)
        grad_c = grad_bands = None
        if ctx.needs_input_grad[1]:
            p, given = _products(c, steps), []
            for o in range(w):
                total = _both(p, 0, o) * wanted[0]
                for k in range(1, width):
                    total.addcmul_(_both(p, k, o), wanted[k])
                given.append(total)
            grad_bands = _diagonals(given, steps, m)
        if ctx.needs_input_grad[0]:
            # Parseval: the gradient of p_s sums the inner products of D_k and w_o over all k and o that read p_s.
            by_p = [torch.zeros_like(wanted[0][0]) for _ in steps]
            for o, one in enumerate(_parts(bands, steps).unbind(-2)):
                for k in range(width):
                    product = (one * wanted[k]).sum(0)
                    for s in (k,) if o == 0 else (abs(k - o), k + o):
                        by_p[s] += product
            by_product = torch.fft.irfft(torch.stack(by_p, -2) * steps.conj(), n=m)
            grad_c = torch.zeros_like(c)
            for s, by_one in enumerate(by_product.unbind(-2)):
                grad_c = grad_c + by_one * c.roll(-s, -1) + (by_one * c).roll(s, -1)
        return grad_c, grad_bands, None


def circulant_congruence(
    spectrum: Float[Tensor, "*batch half"], bands: Float[Tensor, "*batch w m"], width: int
) -> Float[Tensor, "*batch width m"]:
    """Return the first ``width`` upper diagonals of C W C, for C held by its spectrum.

    ``bands[o, i]`` is W[i, i + o]: the main and the upper diagonals of W that are not zero. Diagonals have zeros past
    their ends.
    """
    m = bands.shape[-1]
    diagonals = _Congruence.apply(circulant_column(spectrum, m), bands, width)
    # The ring goes on past the end of the axis; the matrix does not.
    places = torch.arange(m, device=bands.device)
    return diagonals * (places + torch.arange(width, device=bands.device)[:, None] < m)
