"""Covariance matrices of the deep kernel between test rows, as in Figure 3 (a) of the paper.

Which test rows the deep kernel takes for most alike.

What the Gaussian processes have learned: how they are mixed, how far they reach, where they are used.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from svdkl.gp.head import GPHead
from svdkl.gp.interpolation import locate
from svdkl.gp.kernels import LengthscaleKernel, Periodic
from svdkl.model import SVDKL
from svdkl.report.facts.predictions import Ints, Reals
from svdkl.shapes import Tensor

MOST_POINTS = 150
CELLS = 30_000_000  # numbers held at a time

MOST = 5
DISTANCES = 30_000_000  # numbers held at a time

BATCH = 4096
FUNCTION_POINTS = 121
SAME = 1e-6  # the two classes of a pair move equally far, but for rounding
TAIL = 0.005  # of the rows on either side that a function is not drawn for


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
    head = model.gp_head
    z = head.gps.bounding(h.to(head.mixing.weight.dtype))
    blocks = []
    for bank in head.gps.members():
        positions = bank.positions(z)
        blocks.append(bank.gps.prior_covariance(positions, positions, bank.gps.prior()))
    covariances = torch.cat(blocks)[head.gps.gp_order]
    weight = head.mixing.weight.double().square().mean(0)
    summed = torch.einsum("j,jab->ab", weight, covariances)
    return Kernels({gp: covariances[gp].cpu().numpy() for gp in gps}, summed.cpu().numpy())


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
    head = model.gp_head
    z = head.gps.bounding(h.to(head.mixing.weight.dtype))
    weight = head.mixing.weight.double().square().mean(0)
    state = head.state()
    variance = [
        head.gps.prior_marginals(part, state).variance.double() @ weight for part in h.split(_rows_at_once(model))
    ]
    deviation = torch.cat(variance).clamp(min=0).sqrt()
    own = z[torch.from_numpy(asked).to(z.device)]
    parts = []
    for part in z.split(_rows_at_once(model, len(asked))):
        blocks = [
            bank.gps.prior_covariance(bank.positions(own), bank.positions(part), prior)
            for bank, prior in zip(head.gps.members(), state.priors, strict=True)
        ]
        parts.append(torch.einsum("j,jab->ab", weight, torch.cat(blocks)[head.gps.gp_order]))
    covariance, spread = torch.cat(parts, 1).cpu().numpy(), deviation.cpu().numpy()
    # Where no process moves any output, no row is like another.
    scale = np.maximum(spread[asked, None] * spread, np.finfo(np.float64).tiny)
    likeness = np.clip(covariance / scale, -1, 1)
    likeness[np.arange(len(asked)), asked] = -np.inf
    places = np.argsort(-likeness, axis=1, kind="stable")[:, : min(most, len(h) - 1)]
    return Neighbours(places, np.take_along_axis(likeness, places, 1))


def _rows_at_once(model: SVDKL, asked: int = 1) -> int:
    """Rows of which what is held at a time is bounded: their weights on the grids, and their covariances."""
    points = sum(bank.gps.num_gps * max(asked, *bank.gps.grid.sizes) for bank in model.gp_head.gps.members())
    return max(1, DISTANCES // points)


@dataclass(frozen=True)
class Processes:
    """All GPs, in the order of the head.

    Attributes
    ----------
    influence
        (J,) how far each one moves the outputs from row to row: the deviation of its mean over the rows, times the
        norm of its mixing weights.
    order
        GPs by falling influence.
    mixing
        A, (C, J).
    moves
        (C, J) how far each one moves each output from row to row, with the sign of its weight there; of classes
        relative to all of them, since a shift of all at once changes no probability.
    deviations, lengthscales
        Of the prior, (J,), and of each of its axes, (J, D): NaN where a kernel or an axis has none.
    grid_use
        For each GP, (cells,), the share of rows in each cell of its first axis.
    """

    influence: Reals
    order: Ints
    mixing: Reals
    moves: Reals
    deviations: Reals
    lengthscales: Reals
    grid_use: list[Reals]


@dataclass(frozen=True)
class LearnedFunction:
    """A GP along its first feature: mean and deviation of q(f_j), and how the rows lie along it."""

    gp: int
    num_dims: int
    feature: Reals
    mean: Reals
    std: Reals
    rows: Reals  # features of the test rows within the range


class Driver(NamedTuple):
    """A GP that moves an output: how far, with the sign of its weight there, and its share of what all of them do."""

    gp: int
    move: float
    share: float


@torch.inference_mode()
def features_of(estimator: Any, X: Any) -> Tensor:
    """Features h = net(x) of the rows of a table."""
    encoder, model = estimator.encoder_, estimator.model_
    x = torch.from_numpy(np.asarray(X, dtype=np.float32)) if encoder is None else encoder.transform(X)
    device = next(model.parameters()).device
    return torch.cat([model.net(part.to(device)).cpu() for part in x.split(BATCH)]).to(device)


@torch.inference_mode()
def describe_processes(model: SVDKL, h: Tensor) -> Processes:
    """Read all of that off a model and the features of the rows."""
    head = model.gp_head
    mixing = _array(head.mixing.weight)
    state = head.state()
    means = _array(torch.cat([head.gps.marginals(part, state).mean for part in h.split(BATCH)]))
    felt = mixing - mixing.mean(0) if head.likelihood.is_classifier and len(mixing) > 1 else mixing
    moves = felt * means.std(0)
    influence = np.linalg.norm(moves, axis=0)
    order = np.argsort(-influence, kind="stable")
    deviations, lengthscales = _hyperparameters(head)
    return Processes(influence, order, mixing, moves, deviations, lengthscales, _grid_use(head, h))


def _hyperparameters(head: GPHead) -> tuple[Reals, Reals]:
    most_axes = max(map(len, head.gps.groups))
    deviations, lengthscales = [], []
    for bank in head.gps.members():
        kernel = bank.gps.kernel
        deviations.append(_array(kernel.variance.sqrt()))
        lengths = np.full((bank.gps.num_gps, most_axes), np.nan)
        for place, axis in enumerate(kernel.axes):
            if isinstance(axis, LengthscaleKernel | Periodic):
                lengths[:, place] = _array(axis.log_lengthscale.exp())
        lengthscales.append(lengths)
    order = head.gps.gp_order.cpu().numpy()
    return np.concatenate(deviations)[order], np.concatenate(lengthscales)[order]


def _grid_use(head: GPHead, h: Tensor) -> list[Reals]:
    z = head.gps.bounding(h.to(head.mixing.weight.dtype))
    shares: list[Reals] = []
    for bank in head.gps.members():
        size = bank.gps.grid.sizes[0]
        cells = locate(bank.positions(z)[..., 0], size).cell.cpu().numpy()
        shares += [np.bincount(column, minlength=size - 1) / len(column) for column in cells.T]
    return [shares[place] for place in head.gps.gp_order.tolist()]


@torch.inference_mode()
def learned_function(model: SVDKL, h: Tensor, gp: int) -> LearnedFunction:
    """One GP over the range of the rows; its other features, if it has several, are held at their medians."""
    head = model.gp_head
    group = head.gps.groups[gp]
    column = _array(h[:, group[0]])
    low, high = np.quantile(column, (TAIL, 1 - TAIL))
    margin = 0.05 * (high - low) or 0.5
    line = np.linspace(low - margin, high + margin, FUNCTION_POINTS)
    points = h.median(0).values.repeat(FUNCTION_POINTS, 1)
    points[:, group[0]] = torch.from_numpy(line).to(points)
    marginals = head.gps.marginals(points)
    within = column[(column >= line[0]) & (column <= line[-1])]
    return LearnedFunction(
        gp, len(group), line, _array(marginals.mean[:, gp]), np.sqrt(_array(marginals.variance[:, gp])), within
    )


def strongest_output(processes: Processes, gp: int) -> tuple[int, float]:
    """The output that a GP moves most, and which way; of two that it moves as far, the one that it speaks for."""
    moves = processes.moves[:, gp]
    furthest = np.flatnonzero(np.abs(moves) >= (1 - SAME) * np.abs(moves).max())
    place = int(furthest[moves[furthest].argmax()])
    return place, float(moves[place])


def drivers(processes: Processes, output: int, most: int) -> list[Driver]:
    """The GPs that move an output most, at most so many, by falling share; none that do not move it."""
    moves = processes.moves[output]
    total = float(np.abs(moves).sum())
    order = np.argsort(-np.abs(moves), kind="stable")[:most].tolist()
    return [Driver(gp, float(moves[gp]), abs(float(moves[gp])) / total) for gp in order if moves[gp] != 0]


def _array(tensor: Tensor) -> npt.NDArray[np.float64]:
    return tensor.detach().cpu().double().numpy()
