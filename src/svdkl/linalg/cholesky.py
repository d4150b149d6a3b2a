"""Cholesky factors of very small blocks, unrolled."""

from collections.abc import Sequence

import torch

from svdkl.shapes import Tensor

PIVOT_FLOOR = 1e-12  # of a small block, relative to its diagonal entry


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
