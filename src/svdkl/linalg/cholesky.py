"""Cholesky factors: with a jitter that grows only when it must, and for very small blocks, unrolled."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch

from svdkl.shapes import Float, Tensor

PIVOT_FLOOR = 1e-12  # of a small block, relative to its diagonal entry


class JitteredCholesky(NamedTuple):
    """A lower factor of ``matrix + jitter * scale * I`` and the relative jitter that it took."""

    factor: Tensor
    jitter: float


def jittered_cholesky(matrix: Float[Tensor, "*batch n n"], jitter: float = 1e-6, attempts: int = 4) -> JitteredCholesky:
    """Factorise a positive semi-definite matrix.

    Parameters
    ----------
    matrix
        Symmetric positive semi-definite; its mean diagonal is the scale to which the jitter is relative.
    jitter
        Relative jitter of the first attempt.
    attempts
        How often the jitter may grow tenfold before giving up. Under ``torch.compile`` there is one attempt, since
        the result of a factorisation cannot steer a traced graph.

    Returns
    -------
    JitteredCholesky
        The factor, and the relative jitter used. Growth is also warned of.

    Raises
    ------
    ValueError
        If the matrix is not finite, or not positive definite with the largest jitter.
    """
    scale = matrix.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    factor, failure = torch.linalg.cholesky_ex(torch.addcmul(matrix, scale, eye, value=jitter))
    if torch.compiler.is_compiling():
        return JitteredCholesky(factor, jitter)

    used = jitter
    for _ in range(attempts):
        if not bool(failure.any()):
            break
        used = 10 * used if used > 0 else torch.finfo(matrix.dtype).eps
        factor, failure = torch.linalg.cholesky_ex(torch.addcmul(matrix, scale, eye, value=used))
    if bool(failure.any()):
        if not bool(torch.isfinite(matrix).all()):
            raise ValueError("Expected a finite matrix to factorise; it holds NaN or infinite entries.")
        raise ValueError(
            f"Expected a positive semi-definite matrix; its Cholesky factorisation failed even with relative jitter "
            f"{used:.0e}: start from a larger jitter."
        )
    if used > jitter:
        warnings.warn(f"The relative jitter grew from {jitter:.0e} to {used:.0e} to factorise a matrix.", stacklevel=2)
    return JitteredCholesky(factor, used)


def unrolled_cholesky(entries: Sequence[Sequence[Tensor]], floor: float = PIVOT_FLOOR) -> list[list[Tensor]]:
    """Lower Cholesky factors of many small positive semi-definite matrices (n about 4), by elementwise operations.

    A LAPACK call for each matrix would cost more than the matrix. Pivots are kept above ``floor`` times their diagonal
    entry, so that a matrix that is singular to rounding still has a finite factor and finite gradients.

    Parameters
    ----------
    entries
        entries[i][k], k <= i: the lower triangle, each entry a tensor of all matrices' own.

    Returns
    -------
    list of list of Tensor
        The factor, in the same form.
    """
    factor: list[list[Tensor]] = []
    for i, row in enumerate(entries):
        done: list[Tensor] = []
        for k in range(i):
            entry = row[k]
            for left, right in zip(done, factor[k], strict=False):
                entry = entry - left * right
            done.append(entry / factor[k][k])
        pivot = row[i]
        for entry in done:
            pivot = pivot - entry.square()
        least = floor * row[i].detach() + torch.finfo(pivot.dtype).tiny
        factor.append([*done, torch.maximum(pivot, least).sqrt()])
    return factor
