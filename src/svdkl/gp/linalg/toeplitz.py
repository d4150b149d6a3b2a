"""Symmetric Toeplitz matrices, held by their first column c: T[i, k] = c[|i - k|]."""

import warnings
from typing import NamedTuple

import torch

from svdkl.shapes import Float, Tensor

ATTEMPTS = 4  # the jitter grows from 1e-6 to at most 1e-2: a larger one would be another model


def toeplitz_dense(column: Float[Tensor, "*batch m"]) -> Float[Tensor, "*batch m m"]:
    """Write out the matrix, for axes short enough to be factorised."""
    # Row i is a window into c[m - 1], ..., c[0], ..., c[m - 1]; each row's window starts one step further left.
    both_ways = torch.cat([column.flip(-1), column[..., 1:]], -1)
    return both_ways.unfold(-1, column.shape[-1], 1).flip(-2)


def toeplitz_matmul(column: Float[Tensor, "*batch m"], x: Float[Tensor, "*batch m r"]) -> Float[Tensor, "*batch m r"]:
    """Return T X in O(m log m) a column: T is the corner of a circulant matrix of twice its size."""
    m = column.shape[-1]
    ring = torch.cat([column, column[..., :1], column[..., 1:].flip(-1)], -1)
    spectrum = torch.fft.rfft(ring)
    product = spectrum.unsqueeze(-1) * torch.fft.rfft(x, n=2 * m, dim=-2)
    return torch.fft.irfft(product, n=2 * m, dim=-2)[..., :m, :]


class ToeplitzCholesky(NamedTuple):
    """A lower factor of ``T + jitter * c[0] * I`` and the relative jitter that it took."""

    factor: Float[Tensor, "J m m"]
    jitter: float


def toeplitz_cholesky(column: Float[Tensor, "J m"], jitter: float = 1e-6) -> ToeplitzCholesky:
    """Factorise positive semi-definite Toeplitz matrices, given by their first columns.

    The relative jitter grows tenfold, with a warning, as long as a factorisation fails; after ``ATTEMPTS`` more that is
    a ValueError. Under ``torch.compile`` there is one attempt, since a result cannot steer a traced graph.
    """
    factor, failed = _factorise(_lifted(column, jitter))
    if torch.compiler.is_compiling():
        return ToeplitzCholesky(factor, jitter)

    used = jitter
    for _ in range(ATTEMPTS):
        if not bool(failed.any()):
            break
        used = 10 * used if used > 0 else torch.finfo(column.dtype).eps
        factor, failed = _factorise(_lifted(column, used))
    if bool(failed.any()):
        if not bool(torch.isfinite(column).all()):
            raise ValueError("Expected a finite matrix to factorise; it holds NaN or infinite entries.")
        raise ValueError(
            f"Expected a positive semi-definite matrix; its Cholesky factorisation failed even with relative jitter "
            f"{used:.0e}: start from a larger jitter."
        )
    if used > jitter:
        warnings.warn(f"The relative jitter grew from {jitter:.0e} to {used:.0e} to factorise a matrix.", stacklevel=2)
    return ToeplitzCholesky(factor, used)


def _lifted(column: Float[Tensor, "J m"], jitter: float) -> Float[Tensor, "J m"]:
    """Return the column of T + jitter c[0] I."""
    return torch.cat([(1 + jitter) * column[:, :1], column[:, 1:]], -1)


def _factorise(column: Float[Tensor, "J m"]) -> tuple[Float[Tensor, "J m m"], Tensor]:
    """Return lower factors, and which matrices have none."""
    if column.device.type != "cpu" or torch.compiler.is_compiling():
        return dense_factors(column)
    from svdkl.gp.fast.toeplitz_loops import CPUToeplitzCholesky

    return CPUToeplitzCholesky.apply(column)


def dense_factors(column: Float[Tensor, "J m"]) -> tuple[Float[Tensor, "J m m"], Tensor]:
    """Factorise by tensor operations in O(m^3): for any device, traced code and second derivatives."""
    factor, failed = torch.linalg.cholesky_ex(toeplitz_dense(column))
    return factor, (failed != 0) | column.isinf().any(-1)
