"""What the compiled backends share in their backward passes.

Of the points in a cell, the gradient of the cell's cubics needs to know only moments: sums of gradients times t^p.
"""

import torch

from svdkl.shapes import Float, Tensor

POWERS = 4
DEGREE = 2 * (POWERS - 1)  # of the variance along one axis


def rows_by_cell(roots: Float[Tensor, "K 4 J cells"]) -> Float[Tensor, "J cells K 4"]:
    """All that a point reads of one axis, side by side in memory."""
    return roots.permute(2, 3, 0, 1).contiguous()


def root_gradients(
    rows: Float[Tensor, "*batch K 4"], moments: Float[Tensor, "*batch 7"]
) -> Float[Tensor, "*batch K 4"]:
    """Gradient of a cell's roots from the sums of grad_variance t^p, p = 0 ... 6, over the points in the cell."""
    # d variance / d root_k[p] = 2 t^p sum_q root_k[q] t^q
    windows = moments.unfold(-1, POWERS, 1)  # windows[p, q] is the moment of t^(p + q)
    return 2 * torch.einsum("...kq,...pq->...kp", rows, windows)
