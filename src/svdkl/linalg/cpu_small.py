"""Cholesky factors of very many very small matrices: the compiled loop for CPUs."""

from typing import no_type_check

import numpy as np
import torch

from svdkl.compiled import jit
from svdkl.linalg.small import ROUNDING
from svdkl.shapes import Float, Tensor


@jit
@no_type_check
def _columns(left, nothing):
    """Covariances become the columns of their factors, in place. The innermost loops go along the matrices."""
    size, _, count = left.shape
    whole, scale = np.empty((size, count), left.dtype), np.empty(count, left.dtype)
    for c in range(size):
        for b in range(count):
            whole[c, b] = left[c, c, b]
    for c in range(size):
        for b in range(count):
            pivot = left[c, c, b]
            scale[b] = 1 / np.sqrt(pivot) if pivot > nothing * whole[c, b] else 0
        for d in range(c):
            for b in range(count):
                left[c, d, b] = 0
        for d in range(c, size):
            for b in range(count):
                left[c, d, b] *= scale[b]
        for d in range(c + 1, size):
            for e in range(d, size):
                for b in range(count):
                    left[d, e, b] -= left[c, d, b] * left[c, e, b]


def compiled_cholesky(covariances: Float[Tensor, "C C B"]) -> Float[Tensor, "C C B"]:
    """See :func:`svdkl.linalg.small.small_cholesky`; without gradients."""
    columns = covariances.detach().clone(memory_format=torch.contiguous_format)
    array = columns.numpy()
    _columns(array, ROUNDING * np.finfo(array.dtype).eps)
    return columns
