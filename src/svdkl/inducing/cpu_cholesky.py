"""What training reads off a Cholesky factor of q(u), value and gradient, with few passes over it: loops for CPUs.

The factor is a raw parameter: the strictly lower triangle as it stands, the diagonal through softplus, above it nothing
that is read. Tensor operations would write that out in several copies, forward and back.
"""

from functools import partial
from itertools import pairwise
from typing import Any, no_type_check

import numpy as np
import torch

from svdkl.compiled import jit, num_threads, on_threads
from svdkl.interpolation import NEIGHBOURS
from svdkl.interpolation.backward import differentiable_gradients
from svdkl.linalg.banded import dense_gram
from svdkl.linalg.triangular import positive_lower
from svdkl.shapes import Float, Tensor

ENTRIES_PER_THREAD = 500_000  # below this a thread costs more than it brings

# Nothing may wrap what numba compiles: hence no_type_check throughout.


@jit
@no_type_check
def _softplus(x):
    x = np.float64(x)
    return x if x > 20 else np.log1p(np.exp(x))


@jit
@no_type_check
def _softplus_slope(x):
    return 1 / (1 + np.exp(-np.float64(x)))


@jit
@no_type_check
def _write_out(raws, factors, start, stop):
    """L with zeros above its diagonal."""
    for j in range(start, stop):
        raw, factor = raws[j], factors[j]
        for i in range(len(raw)):
            for k in range(i):
                factor[i, k] = raw[i, k]
            factor[i, i] = _softplus(raw[i, i])
            for k in range(i + 1, len(raw)):
                factor[i, k] = 0


@jit
@no_type_check
def _write_back(raws, grad_factors, grad_raws, start, stop):
    for j in range(start, stop):
        raw, grad, out = raws[j], grad_factors[j], grad_raws[j]
        for i in range(len(raw)):
            for k in range(i):
                out[i, k] = grad[i, k]
            out[i, i] = grad[i, i] * _softplus_slope(raw[i, i])
            for k in range(i + 1, len(raw)):
                out[i, k] = 0


@jit
@no_type_check
def _gram(products, grams, start, stop):
    """``products``: F; ``grams``: the first diagonals of F F^T."""
    m = products.shape[1]
    for j in range(start, stop):
        for i in range(m):
            # Rows past the last are read as the last, and not counted.
            f0, f1 = products[j, i], products[j, min(i + 1, m - 1)]
            f2, f3 = products[j, min(i + 2, m - 1)], products[j, min(i + 3, m - 1)]
            s0 = s1 = s2 = s3 = 0.0
            for c in range(m):
                s0 += f0[c] * f0[c]
                s1 += f0[c] * f1[c]
                s2 += f0[c] * f2[c]
                s3 += f0[c] * f3[c]
            grams[j, 0, i] = s0
            grams[j, 1, i] = s1 if i + 1 < m else 0.0
            grams[j, 2, i] = s2 if i + 2 < m else 0.0
            grams[j, 3, i] = s3 if i + 3 < m else 0.0


@jit
@no_type_check
def _gram_back(products, grad_grams, grad_products, start, stop):
    m = products.shape[1]
    for j in range(start, stop):
        gram, product = grad_grams[j], products[j]
        for i in range(m):
            f0, out = product[i], grad_products[j, i]
            above1, above2, above3 = product[max(i - 1, 0)], product[max(i - 2, 0)], product[max(i - 3, 0)]
            below1, below2, below3 = product[min(i + 1, m - 1)], product[min(i + 2, m - 1)], product[min(i + 3, m - 1)]
            a1 = gram[1, i - 1] if i >= 1 else 0.0
            a2 = gram[2, i - 2] if i >= 2 else 0.0
            a3 = gram[3, i - 3] if i >= 3 else 0.0
            b1 = gram[1, i] if i + 1 < m else 0.0
            b2 = gram[2, i] if i + 2 < m else 0.0
            b3 = gram[3, i] if i + 3 < m else 0.0
            twice = 2 * gram[0, i]
            for c in range(m):
                out[c] = (
                    twice * f0[c]
                    + (a1 * above1[c] + a2 * above2[c] + a3 * above3[c])
                    + (b1 * below1[c] + b2 * below2[c] + b3 * below3[c])
                )


@jit
@no_type_check
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
@no_type_check
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
    """The four central diagonals of R L L^T R^T."""

    @staticmethod
    def forward(ctx: Any, root: Float[Tensor, "J m m"], raw: Float[Tensor, "J m m"]) -> Float[Tensor, "J 4 m"]:
        """By way of F = R L."""
        factor = torch.empty_like(raw, dtype=torch.float64, memory_format=torch.contiguous_format)
        _run(_write_out, raw, factor)
        product = root @ factor
        gram = product.new_empty(len(raw), NEIGHBOURS, raw.shape[-1])
        _run(_gram, product, gram)
        ctx.save_for_backward(root, raw, factor, product)
        return gram

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of R and of the raw parameter."""
        root, raw, factor, product = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiable_gradients(_eager_coloured_gram, (root, raw), (grad,))
        grad_product = torch.empty_like(product)
        _run(_gram_back, product, grad, grad_product)
        grad_root = grad_raw = None
        if ctx.needs_input_grad[0]:
            grad_root = grad_product @ factor.mT
        if ctx.needs_input_grad[1]:
            grad_raw = torch.empty_like(raw, memory_format=torch.contiguous_format)
            _run(_write_back, raw, root.mT @ grad_product, grad_raw)
        return grad_root, grad_raw


class CPUTraceAndLogDet(torch.autograd.Function):
    """tr(L L^T) and log |L L^T|."""

    @staticmethod
    def forward(ctx: Any, raw: Float[Tensor, "J m m"]) -> tuple[Float[Tensor, "J"], Float[Tensor, "J"]]:
        """Both in one pass."""
        trace, log_det = (raw.new_empty(len(raw), dtype=torch.float64) for _ in range(2))
        ctx.save_for_backward(raw)
        _run(_terms_forward, raw, trace, log_det)
        return trace, log_det

    @staticmethod
    def backward(ctx: Any, grad_trace: Tensor, grad_log_det: Tensor) -> Tensor | None:
        """Gradient of the raw parameter."""
        (raw,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiable_gradients(_eager_terms, (raw,), (grad_trace, grad_log_det))[0]
        result = torch.empty_like(raw, memory_format=torch.contiguous_format)
        _run(_terms_backward, raw, grad_trace, grad_log_det, result)
        return result


def _eager_coloured_gram(root: Tensor, raw: Tensor) -> tuple[Tensor]:
    return (dense_gram(root @ positive_lower(raw), NEIGHBOURS),)


def _eager_terms(raw: Tensor) -> tuple[Tensor, Tensor]:
    factor = positive_lower(raw)
    return factor.square().sum((-2, -1)), 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _run(loop: Any, first: Float[Tensor, "J m m"], *others: Tensor) -> None:
    """Call a loop over GPs on these tensors, with a share of the GPs for each thread."""
    arrays = [x.detach().contiguous().numpy() for x in (first, *others)]
    count = min(max(len(first), 1), num_threads(first.numel(), ENTRIES_PER_THREAD))
    bounds = [len(first) * i // count for i in range(count + 1)]
    on_threads([partial(loop, *arrays, *run) for run in pairwise(bounds)], count)
