"""Which test rows the deep kernel takes for most alike."""

from dataclasses import dataclass

import numpy as np
import torch

from svdkl.model import SVDKL
from svdkl.report.facts.targets import Ints, Reals
from svdkl.shapes import Tensor

MOST = 5
CELLS = 30_000_000  # numbers held at a time


@dataclass(frozen=True)
class Neighbours:
    """Of each row that was asked for, the places of the rows nearest to it, the nearest first, and their likeness.

    Both are (n, k). The likeness is the correlation of the outputs under the prior: 1 for the same features, near 0 for
    rows that tell nothing of each other.
    """

    places: Ints
    likeness: Reals


@torch.inference_mode()
def neighbours(model: SVDKL, h: Tensor, asked: Ints, most: int = MOST) -> Neighbours:
    """The nearest of all rows, from their features, to those at some places; a row is no neighbour of itself.

    By the covariance of the outputs, Σ_j w_j k_j(x, x') with w_j the mean squared mixing weight of GP j, over the
    deviations of both rows.
    """
    head = model.head
    z = head.bounding(h.to(head.mixing.weight.dtype))
    weight = head.mixing.weight.double().square().mean(0)
    state = head.state()
    variance = [head.prior_marginals(part, state).variance.double() @ weight for part in h.split(_rows_at_once(model))]
    deviation = torch.cat(variance).clamp(min=0).sqrt()
    own = z[torch.from_numpy(asked).to(z.device)]
    parts = []
    for part in z.split(_rows_at_once(model, len(asked))):
        blocks = [
            bank.gps.prior_covariance(bank.positions(own), bank.positions(part), prior)
            for bank, prior in zip(head.members(), state.priors, strict=True)
        ]
        parts.append(torch.einsum("j,jab->ab", weight, torch.cat(blocks)[head.gp_order]))
    covariance, spread = torch.cat(parts, 1).cpu().numpy(), deviation.cpu().numpy()
    # Where no process moves any output, no row is like another.
    scale = np.maximum(spread[asked, None] * spread, np.finfo(np.float64).tiny)
    likeness = np.clip(covariance / scale, -1, 1)
    likeness[np.arange(len(asked)), asked] = -np.inf
    places = np.argsort(-likeness, axis=1, kind="stable")[:, : min(most, len(h) - 1)]
    return Neighbours(places, np.take_along_axis(likeness, places, 1))


def _rows_at_once(model: SVDKL, asked: int = 1) -> int:
    """Rows of which what is held at a time is bounded: their weights on the grids, and their covariances."""
    points = sum(bank.gps.num_gps * max(asked, *bank.gps.grid.sizes) for bank in model.head.members())
    return max(1, CELLS // points)
