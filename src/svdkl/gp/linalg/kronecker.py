"""Kronecker products K = K_1 x ... x K_D, held by their factors.

A vector of length m = m_1 ... m_D is held as a tensor of shape (..., m_1, ..., m_D), in row-major order, so that the
factor K_d acts along axis d. No function here forms an m x m matrix.
"""

import math
from collections.abc import Callable, Sequence

import torch

from svdkl.shapes import Float, Tensor


def along_axis(function: Callable[[Tensor], Tensor], x: Tensor, axis: int, num_axes: int, num_batch: int = 1) -> Tensor:
    """Apply ``function``, which acts on the next-to-last dimension of (..., m_d, columns), along one axis of a tensor.

    Parameters
    ----------
    x
        Shape (..., *batch, m_1, ..., m_D) with ``num_axes = D`` and ``num_batch`` dimensions of ``batch``, over which
        the function's own parameters are batched. Dimensions before ``batch`` become columns.
    axis
        Which of the D axes, from 0.
    """
    extra = x.dim() - num_axes - num_batch
    position = extra + num_batch + axis
    batch_dims = list(range(extra, extra + num_batch))
    others = [d for d in range(x.dim()) if d != position and d not in batch_dims]
    order = [*batch_dims, position, *others]
    moved = x.permute(order)
    result = function(moved.flatten(num_batch + 1) if others else moved.unsqueeze(-1))
    result = result.reshape(*moved.shape[:num_batch], result.shape[num_batch], *moved.shape[num_batch + 1 :])
    return result.permute([order.index(d) for d in range(x.dim())])


def kron_matvec(factors: Sequence[Float[Tensor, "*batch _ _"]], x: Tensor) -> Tensor:
    """(F_1 x ... x F_D) x for x of shape (..., *batch, m_1, ..., m_D): O(m sum_d m_d) operations."""
    num_batch = factors[0].dim() - 2
    for axis, factor in enumerate(factors):
        x = along_axis(lambda columns, f=factor: f @ columns, x, axis, len(factors), num_batch)  # type: ignore[misc]
    return x


def kron_matmul(factors: Sequence[Float[Tensor, "*batch _ _"]], x: Float[Tensor, "*batch m r"]) -> Tensor:
    """(F_1 x ... x F_D) X for a matrix X of r columns."""
    sizes = [factor.shape[-1] for factor in factors]
    columns = x.movedim(-1, 0).reshape(x.shape[-1], *x.shape[:-2], *sizes)
    product = kron_matvec(factors, columns)
    return product.reshape(x.shape[-1], *x.shape[:-2], -1).movedim(0, -1)


def kron_diagonal(diagonals: Sequence[Float[Tensor, "*batch _"]]) -> Float[Tensor, "*batch m"]:
    """Diagonal of K_1 x ... x K_D from the diagonals of the factors."""
    result = diagonals[0]
    for diagonal in diagonals[1:]:
        result = (result.unsqueeze(-1) * diagonal.unsqueeze(-2)).flatten(-2)
    return result


def kron_log_det(log_dets: Sequence[Float[Tensor, "*batch"]], sizes: Sequence[int]) -> Float[Tensor, "*batch"]:
    """Log |K_1 x ... x K_D| = sum_d (m / m_d) log |K_d|."""
    if len(sizes) == 1:
        return log_dets[0]
    m = math.prod(sizes)
    return torch.stack([(m // size) * log_det for log_det, size in zip(log_dets, sizes, strict=True)]).sum(0)


def kron_trace(traces: Sequence[Float[Tensor, "*batch"]]) -> Float[Tensor, "*batch"]:
    """tr((x)_d T_d) = prod_d tr(T_d); with T_d = K_d^-1 S_d, the trace of K^-1 S."""
    return traces[0] if len(traces) == 1 else torch.stack(list(traces)).prod(0)


def kron_trace_of_solve(
    roots: Sequence[Float[Tensor, "*batch _ _"]], factors: Sequence[Float[Tensor, "*batch _ _"]]
) -> Float[Tensor, "*batch"]:
    """tr(K^-1 S) for K = (x) R_d R_d^T and S = (x) L_d L_d^T, R_d and L_d lower triangular."""
    solved = [
        torch.linalg.solve_triangular(root, factor, upper=False) for root, factor in zip(roots, factors, strict=True)
    ]
    return kron_trace([x.square().sum((-2, -1)) for x in solved])


def kron_sample(
    mean: Float[Tensor, "..."],
    factors: Sequence[Float[Tensor, "*batch _ _"]],
    num_samples: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    """``num_samples`` draws of N(mean, (x) L_d L_d^T): u = mean + (x) L_d eps, in O(m^(1 + 1/D)) each."""
    device = mean.device if generator is None else generator.device
    noise = torch.randn(num_samples, *mean.shape, dtype=mean.dtype, device=device, generator=generator)
    return mean + kron_matvec(factors, noise.to(mean.device))
