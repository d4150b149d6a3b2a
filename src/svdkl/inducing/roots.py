"""The cubics of each cell whose squares add up to the variance along one axis."""

import torch

from svdkl.interpolation import NEIGHBOURS, cubic_coefficients
from svdkl.linalg.cholesky import unrolled_cholesky
from svdkl.shapes import Float, Tensor


def cell_roots(diagonals: Float[Tensor, "J 4 m"], dtype: torch.dtype | None = None) -> Float[Tensor, "4 4 J cells"]:
    """Four cubics a cell whose squares add up to w(t)^T S_d w(t): roots[r, p] is the t^p coefficient of the r-th.

    Parameters
    ----------
    diagonals
        diagonals[k, i] = S_d[i, i + k].
    dtype
        Of the result; that of the diagonals unless given. What is between is computed in the diagonals' own.
    """
    dtype = dtype or diagonals.dtype
    if diagonals.device.type != "cpu" or torch.compiler.is_compiling():
        return eager_cell_roots(diagonals).to(dtype)
    from svdkl.inducing.cpu_roots import CPUCellRoots

    return CPUCellRoots.apply(diagonals, dtype)


def eager_cell_roots(diagonals: Float[Tensor, "J 4 m"]) -> Float[Tensor, "4 4 J cells"]:
    """By tensor operations: for any device, traced code and second derivatives."""
    bands = diagonals.unbind(1)
    starts = diagonals.shape[-1] - NEIGHBOURS + 1  # runs of four neighbours
    # S[i + a, i + b] = bands[a - b][i + b] for b <= a, over all runs i at once.
    blocks = [[bands[a - b][:, b : b + starts] for b in range(a + 1)] for a in range(NEIGHBOURS)]
    factor = unrolled_cholesky(blocks)
    zero = torch.zeros_like(factor[0][0])
    # Rows by neighbour, (4 roots, J, starts) each: C^T w = sum_a w_a C[a].
    inner = [torch.stack(row + [zero] * (NEIGHBOURS - len(row))) for row in factor]
    # The first and the last cell read the ghost point beyond the end instead of the far neighbour.
    first = [row[..., :1] for row in inner]
    last = [row[..., -1:] for row in inner]
    before = 3 * first[0] - 3 * first[1] + first[2]
    after = 3 * last[3] - 3 * last[2] + last[1]
    rows = [torch.cat(parts, -1) for parts in zip([before, *first[:3]], inner, [*last[1:], after], strict=True)]
    return cubic_coefficients(*rows).movedim(0, 1)
