"""Compiled loops for CPUs: the numbers that training reads off a Cholesky factor of q(u), and their gradients.

The factor L is stored as a raw parameter: its strictly lower triangle as it is, its diagonal before the softplus; the
upper triangle is never read. Tensor operations would copy L several times, forward and back; we write it out once.
"""

from typing import Any

import numpy as np
import torch

from svdkl.gp.fast.compiling import differentiable_gradients, jit, on_slices
from svdkl.gp.interpolation import NEIGHBOURS
from svdkl.gp.linalg.banded import dense_gram
from svdkl.gp.linalg.small import positive_lower
from svdkl.shapes import Float, Tensor


@jit
def _softplus(x):
    x = np.float64(x)
    return x if x > 20 else np.log1p(np.exp(x))


@jit
def _softplus_slope(x):
    return 1 / (1 + np.exp(-np.float64(x)))


@jit
def _write_out(raws, factors, start, stop):
    """Write out L, with zeros above its diagonal."""
    m = raws.shape[1]
    for j in range(start, stop):
        raw, factor = raws[j], factors[j]
        for i in range(m):
            for k in range(i):
                factor[i, k] = raw[i, k]
            factor[i, i] = _softplus(raw[i, i])
            factor[i, i + 1 :] = 0


@jit
def _write_out_back(raws, grad_factors, grad_raws, start, stop):
    m = raws.shape[1]
    for j in range(start, stop):
        grad, grad_raw = grad_factors[j], grad_raws[j]
        for i in range(m):
            for k in range(i):
                grad_raw[i, k] = grad[i, k]
            grad_raw[i, i] = grad[i, i] * _softplus_slope(raws[j, i, i])
            grad_raw[i, i + 1 :] = 0


@jit
def _gram(products, grams, start, stop):
    """Compute the first diagonals of F F^T, for a lower triangular F."""
    m = products.shape[1]
    for j in range(start, stop):
        product, gram = products[j], grams[j]
        for i in range(m):
            # Past the last row we read the last one, and store zeros below.
            f0, f1 = product[i], product[min(i + 1, m - 1)]
            f2, f3 = product[min(i + 2, m - 1)], product[min(i + 3, m - 1)]
            s0 = s1 = s2 = s3 = 0.0
            for c in range(i + 1):
                s0 += f0[c] * f0[c]
                s1 += f0[c] * f1[c]
                s2 += f0[c] * f2[c]
                s3 += f0[c] * f3[c]
            gram[0, i] = s0
            gram[1, i] = s1 if i + 1 < m else 0.0
            gram[2, i] = s2 if i + 2 < m else 0.0
            gram[3, i] = s3 if i + 3 < m else 0.0


@jit
def _gram_back(products, grad_grams, grad_products, start, stop):
    """Compute the gradient of F, in its lower triangle alone."""
    m = products.shape[1]
    for j in range(start, stop):
        product, gram, out = products[j], grad_grams[j], grad_products[j]
        for i in range(m):
            f0 = product[i]
            above1, above2, above3 = product[max(i - 1, 0)], product[max(i - 2, 0)], product[max(i - 3, 0)]
            below1, below2, below3 = product[min(i + 1, m - 1)], product[min(i + 2, m - 1)], product[min(i + 3, m - 1)]
            a1 = gram[1, i - 1] if i >= 1 else 0.0
            a2 = gram[2, i - 2] if i >= 2 else 0.0
            a3 = gram[3, i - 3] if i >= 3 else 0.0
            b1 = gram[1, i] if i + 1 < m else 0.0
            b2 = gram[2, i] if i + 2 < m else 0.0
            b3 = gram[3, i] if i + 3 < m else 0.0
            twice, row = 2 * gram[0, i], out[i]
            for c in range(i + 1):
                row[c] = (
                    twice * f0[c]
                    + (a1 * above1[c] + a2 * above2[c] + a3 * above3[c])
                    + (b1 * below1[c] + b2 * below2[c] + b3 * below3[c])
                )
            row[i + 1 :] = 0


@jit
def _terms_forward(raws, traces, log_dets, start, stop):
    for j in range(start, stop):
        raw, trace, log_det = raws[j], 0.0, 0.0
        for i in range(len(raw)):
            below = 0.0
            for k in range(i):
                below += np.float64(raw[i, k]) * np.float64(raw[i, k])
            positive = _softplus(raw[i, i])
            trace += below + positive * positive
            log_det += 2 * np.log(positive)
        traces[j], log_dets[j] = trace, log_det


@jit
def _terms_backward(raws, grad_traces, grad_log_dets, grad_raws, start, stop):
    for j in range(start, stop):
        raw, out, twice = raws[j], grad_raws[j], 2 * grad_traces[j]
        for i in range(len(raw)):
            for k in range(i):
                out[i, k] = twice * raw[i, k]
            positive = _softplus(raw[i, i])
            out[i, i] = (twice * positive + 2 * grad_log_dets[j] / positive) * _softplus_slope(raw[i, i])
            for k in range(i + 1, len(raw)):
                out[i, k] = 0


class CPUColouredGram(torch.autograd.Function):
    """The four central diagonals of R L L^T R^T, for a lower triangular R."""

    @staticmethod
    def forward(ctx: Any, root: Float[Tensor, "J m m"], raw: Float[Tensor, "J m m"]) -> Float[Tensor, "J 4 m"]:
        """Multiply F = R L as whole matrices, since zeros cost less than loops of odd lengths; then take F F^T."""
        factor = torch.empty_like(raw, dtype=root.dtype, memory_format=torch.contiguous_format)
        on_slices(_write_out, raw, into=(factor,), entries=raw.numel())
        product = root @ factor
        gram = product.new_empty(len(raw), NEIGHBOURS, raw.shape[-1])
        on_slices(_gram, product, into=(gram,), entries=raw.numel())
        ctx.save_for_backward(root, raw, factor, product)
        return gram

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of R, in its lower triangle, and of the raw parameter."""
        root, raw, factor, product = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiable_gradients(
                lambda root, raw: (dense_gram(root.tril() @ positive_lower(raw), NEIGHBOURS),), (root, raw), (grad,)
            )
        grad_product = torch.empty_like(product, memory_format=torch.contiguous_format)
        entries = raw.numel()
        on_slices(_gram_back, product, grad, into=(grad_product,), entries=entries)
        grad_root = grad_raw = None
        if ctx.needs_input_grad[0]:  # most steps of training leave the kernel, and so the root, as it is
            grad_root = (factor @ grad_product.mT).triu_().mT  # in the memory order of the root
        if ctx.needs_input_grad[1]:
            grad_raw = torch.empty_like(raw, memory_format=torch.contiguous_format)
            on_slices(_write_out_back, raw, root.mT @ grad_product, into=(grad_raw,), entries=entries)
        return grad_root, grad_raw


class CPUTraceAndLogDet(torch.autograd.Function):
    """The numbers tr(L L^T) and log |L L^T|."""

    @staticmethod
    def forward(ctx: Any, raw: Float[Tensor, "J m m"]) -> tuple[Float[Tensor, "J"], Float[Tensor, "J"]]:
        """Compute trace and log determinant in one pass."""
        trace, log_det = (raw.new_empty(len(raw), dtype=torch.float64) for _ in range(2))
        ctx.save_for_backward(raw)
        on_slices(_terms_forward, raw, into=(trace, log_det), entries=raw.numel())
        return trace, log_det

    @staticmethod
    def backward(ctx: Any, grad_trace: Tensor, grad_log_det: Tensor) -> Tensor | None:
        """Return the gradient of the raw parameter."""
        (raw,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiable_gradients(_eager_terms, (raw,), (grad_trace, grad_log_det))[0]
        result = torch.empty_like(raw, memory_format=torch.contiguous_format)
        on_slices(_terms_backward, raw, grad_trace, grad_log_det, into=(result,), entries=raw.numel())
        return result


def _eager_terms(raw: Tensor) -> tuple[Tensor, Tensor]:
    factor = positive_lower(raw)
    return factor.square().sum((-2, -1)), 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
