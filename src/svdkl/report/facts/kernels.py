"""Covariance matrices of the deep kernel between test rows, as in Figure 3 (a) of the paper."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from svdkl.model import SVDKL
from svdkl.report.facts.targets import Ints, Reals
from svdkl.shapes import Tensor

MOST_POINTS = 150
CELLS = 30_000_000  # numbers held at a time


@dataclass(frozen=True)
class Kernels:
    """Matrices (n, n) between sorted rows: of chosen GPs, and their sum over all GPs by squared mixing weights."""

    by_gp: dict[int, Reals]
    summed: Reals


def rows_by_class(labels: Ints, num_classes: int, num_gps: int) -> Ints:
    """Positions of rows for a matrix, sorted by class: as many of each as there is room for."""
    most = most_points(num_gps)
    places = [np.flatnonzero(labels == place) for place in range(num_classes)]
    # Room that small classes leave goes to the others.
    room, taken = most, {}
    for left, place in enumerate(sorted(range(num_classes), key=lambda c: len(places[c]))):
        taken[place] = places[place][: room // (num_classes - left)]
        room -= len(taken[place])
    return np.concatenate([taken[place] for place in range(num_classes)])


def rows_by_value(values: Reals, num_gps: int) -> Ints:
    """The same, sorted by a real target."""
    rows = np.arange(min(len(values), most_points(num_gps)))
    return rows[np.argsort(values[rows], kind="stable")]


def most_points(num_gps: int) -> int:
    """Rows that a matrix shows, fewer where the matrices of very many GPs would not fit."""
    return min(MOST_POINTS, max(2, math.isqrt(CELLS // num_gps)))


@torch.inference_mode()
def kernels(model: SVDKL, h: Tensor, gps: list[int]) -> Kernels:
    """The prior covariances of the chosen f_j, and of the outputs, averaged over them."""
    head = model.head
    z = head.bounding(h.to(head.mixing.weight.dtype))
    blocks = []
    for bank in head.members():
        positions = bank.positions(z)
        blocks.append(bank.gps.prior_covariance(positions, positions, bank.gps.prior()))
    covariances = torch.cat(blocks)[head.gp_order]
    weight = head.mixing.weight.double().square().mean(0)
    summed = torch.einsum("j,jab->ab", weight, covariances)
    return Kernels({gp: covariances[gp].cpu().numpy() for gp in gps}, summed.cpu().numpy())
