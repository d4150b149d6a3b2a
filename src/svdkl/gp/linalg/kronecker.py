"""Kronecker products K = K_1 x ... x K_D, which we hold by their factors.

A vector of length m = m_1 ... m_D is a tensor of shape (..., m_1, ..., m_D), in row-major order, so that the factor K_d
acts along axis d. No function here forms an m x m matrix.
"""

import math
from collections.abc import Callable, Sequence

import torch

from svdkl.shapes import Float, Tensor


def along_axis(function: Callable[[Tensor], Tensor], x: Tensor, axis: int, num_axes: int) -> Tensor:
    """Apply a function that maps (J, m_d, columns) to (J, m_d, columns) along axis d of a lattice, counted from 0.

    ``x`` is (..., J, m_1, ..., m_D), and all its dimensions but J and m_d become columns. The function may treat each
    of the J GPs differently.
    """
    gps = x.dim() - num_axes - 1
    position = gps + 1 + axis
    others = [d for d in range(x.dim()) if d not in (gps, position)]
    order = [gps, position, *others]
    moved = x.permute(order)
    result = function(moved.flatten(2) if others else moved.unsqueeze(-1))
    result = result.reshape(moved.shape[0], result.shape[1], *moved.shape[2:])
    return result.permute([order.index(d) for d in range(x.dim())])


def kron_log_det(log_dets: Sequence[Float[Tensor, "*batch"]], sizes: Sequence[int]) -> Float[Tensor, "*batch"]:
    """Return log |K_1 x ... x K_D| = sum_d (m / m_d) log |K_d|."""
    if len(sizes) == 1:
        return log_dets[0]
    m = math.prod(sizes)
    return torch.stack([(m // size) * log_det for log_det, size in zip(log_dets, sizes, strict=True)]).sum(0)


def kron_trace(traces: Sequence[Float[Tensor, "*batch"]]) -> Float[Tensor, "*batch"]:
    """Return tr(T_1 x ... x T_D) = prod_d tr(T_d); with T_d = K_d^-1 S_d this is tr(K^-1 S)."""
    return traces[0] if len(traces) == 1 else torch.stack(list(traces)).prod(0)
