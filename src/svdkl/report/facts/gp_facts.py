"""What the Gaussian processes have learned: how they are mixed, what they use, which rows they take for alike."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from svdkl.estimators.examples import Inputs, encode
from svdkl.estimators.fitted import Fitted
from svdkl.gp.head import GPHead
from svdkl.gp.interpolation import locate
from svdkl.gp.kernels import LengthscaleKernel, Periodic
from svdkl.gp.prior import Prior
from svdkl.report.facts.predictions import Ints, Reals
from svdkl.shapes import Tensor

MOST_POINTS = 150  # rows of a matrix: about as many as a panel has room for, at two pixels each
CELLS = 30_000_000  # numbers held at a time: 240 MB in double precision
MOST = 5  # neighbours that one line of a table has room for
BATCH = 4096  # rows that the network sees at a time, so that memory does not grow with the rows
FUNCTION_POINTS = 121  # of a curve: it looks smooth in a panel of some 300 pixels
SAME = 1e-6  # relative: the two classes of a pair move equally far, but for rounding
TAIL = 0.005  # share of the rows on either side that we leave out, since single rows far out would set the range


def rows_by_class(labels: Ints, num_classes: int, num_gps: int) -> Ints:
    """Choose rows for a matrix, sorted by class: as many of each as there is room for."""
    most = most_points(num_gps)
    places = [np.flatnonzero(labels == place) for place in range(num_classes)]
    # Room that small classes leave goes to the others.
    room, taken = most, {}
    for left, place in enumerate(sorted(range(num_classes), key=lambda c: len(places[c]))):
        taken[place] = places[place][: room // (num_classes - left)]
        room -= len(taken[place])
    return np.concatenate([taken[place] for place in range(num_classes)])


def rows_by_value(values: Reals, num_gps: int) -> Ints:
    """Choose rows for a matrix, sorted by a real target."""
    rows = np.arange(min(len(values), most_points(num_gps)))
    return rows[np.argsort(values[rows], kind="stable")]


def most_points(num_gps: int) -> int:
    """Return how many rows a matrix shows: fewer where the matrices of very many GPs would not fit."""
    return min(MOST_POINTS, max(2, math.isqrt(CELLS // num_gps)))


@torch.inference_mode()
def kernels(head: GPHead, h: Tensor, gps: list[int]) -> tuple[dict[int, Reals], Reals]:
    """Compute the prior covariances (n, n) of the chosen f_j, and of the outputs, averaged over the outputs."""
    z = head.gps.bounding(h.to(head.mixing.weight.dtype))
    covariances, summed = _covariances(head, z, z, [bank.gps.prior() for bank in head.gps.members()])
    return {gp: covariances[gp].cpu().numpy() for gp in gps}, summed.cpu().numpy()


def _covariances(head: GPHead, first: Tensor, second: Tensor, priors: Sequence[Prior]) -> tuple[Tensor, Tensor]:
    """Compute prior covariances between rows: of each f_j, and their sum by the mean squared mixing weights."""
    blocks = [
        bank.gps.prior_covariance(bank.positions(first), bank.positions(second), prior)
        for bank, prior in zip(head.gps.members(), priors, strict=True)
    ]
    covariances = torch.cat(blocks)[head.gps.gp_order]
    return covariances, torch.einsum("j,jab->ab", head.mixing.weight.double().square().mean(0), covariances)


@dataclass(frozen=True)
class Neighbours:
    """Places of the rows nearest to each row that was asked for, the nearest first, and their likeness, both (n, k).

    The likeness is the correlation of the outputs under the prior: 1 for the same features, near 0 for rows that tell
    nothing of each other.
    """

    places: Ints
    likeness: Reals


@torch.inference_mode()
def neighbours(head: GPHead, h: Tensor, asked: Ints) -> Neighbours:
    """Find the rows most like the rows at some places, from the features of all; no row is its own neighbour.

    The likeness is the covariance of the outputs, Σ_j w_j k_j(x, x') with w_j the mean squared mixing weight of GP j,
    over the deviations of both rows.
    """
    z = head.gps.bounding(h.to(head.mixing.weight.dtype))
    weight = head.mixing.weight.double().square().mean(0)
    state = head.state()
    variance = [
        head.gps.prior_marginals(part, state).variance.double() @ weight for part in h.split(_rows_at_once(head))
    ]
    deviation = torch.cat(variance).clamp(min=0).sqrt()
    own = z[torch.from_numpy(asked).to(z.device)]
    blocks = z.split(_rows_at_once(head, len(asked)))
    parts = [_covariances(head, own, block, state.priors)[1] for block in blocks]
    covariance, spread = torch.cat(parts, 1).cpu().numpy(), deviation.cpu().numpy()
    # Where no GP moves any output, no row is like another.
    scale = np.maximum(spread[asked, None] * spread, np.finfo(np.float64).tiny)
    likeness = np.clip(covariance / scale, -1, 1)
    likeness[np.arange(len(asked)), asked] = -np.inf
    places = np.argsort(-likeness, axis=1, kind="stable")[:, : min(MOST, len(h) - 1)]
    return Neighbours(places, np.take_along_axis(likeness, places, 1))


def _rows_at_once(head: GPHead, asked: int = 1) -> int:
    """Return for how many rows the weights on the grids and the covariances may be held at a time."""
    points = sum(bank.gps.num_gps * max(asked, *bank.gps.grid.sizes) for bank in head.gps.members())
    return max(1, CELLS // points)


@dataclass(frozen=True)
class GPFacts:
    """What all GPs have learned, in the order of the head.

    Attributes
    ----------
    influence
        How far each GP moves the outputs from row to row, (J,): the deviation of its mean over the rows, times the norm
        of its mixing weights.
    order
        The GPs by falling influence.
    mixing
        The mixing matrix A, (C, J).
    moves
        How far each GP moves each output from row to row, (C, J), with the sign of its weight there. A class is moved
        relative to the mean of all classes, since a shift of all at once changes no probability.
    deviations
        The prior deviation of each GP, (J,).
    lengthscales
        The lengthscale of each GP on each axis, (J, D); NaN where there is none.
    grid_use
        For each GP the share of rows in each cell of its first axis, (cells,).
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
    """A GP along its first feature: mean and deviation of q(f_j), and the features of the rows within the range."""

    feature: Reals
    mean: Reals
    std: Reals
    rows: Reals


class Driver(NamedTuple):
    """A GP that moves an output: how far, with the sign of its weight there, and its share of what all of them do."""

    gp: int
    move: float
    share: float


@torch.inference_mode()
def features_of(fitted: Fitted, rows: Inputs) -> Tensor:
    """Compute the features h = net(x) of rows."""
    net, device = fitted.model.net, next(fitted.model.parameters()).device
    return torch.cat([net(part.to(device)) for part in encode(fitted.encoder, rows).split(BATCH)])


@torch.inference_mode()
def describe_gps(head: GPHead, h: Tensor) -> GPFacts:
    """Read what the GPs have learned off a head and the features of the rows."""
    mixing = _array(head.mixing.weight)
    state = head.state()
    means = _array(torch.cat([head.gps.marginals(part, state).mean for part in h.split(BATCH)]))
    felt = mixing - mixing.mean(0) if head.likelihood.is_classifier and len(mixing) > 1 else mixing
    moves = felt * means.std(0)
    influence = np.linalg.norm(moves, axis=0)
    order = np.argsort(-influence, kind="stable")
    deviations, lengthscales = _hyperparameters(head)
    return GPFacts(influence, order, mixing, moves, deviations, lengthscales, _grid_use(head, h))


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
def learned_function(head: GPHead, h: Tensor, gp: int) -> LearnedFunction:
    """Follow one GP over the range of the rows; its other features, if it has several, are held at their medians."""
    group = head.gps.groups[gp]
    column = _array(h[:, group[0]])
    low, high = np.quantile(column, (TAIL, 1 - TAIL))
    margin = 0.05 * (high - low) or 0.5
    line = np.linspace(low - margin, high + margin, FUNCTION_POINTS)
    points = h.median(0).values.repeat(FUNCTION_POINTS, 1)
    points[:, group[0]] = torch.from_numpy(line).to(points)
    marginals = head.gps.marginals(points)
    within = column[(column >= line[0]) & (column <= line[-1])]
    return LearnedFunction(line, _array(marginals.mean[:, gp]), np.sqrt(_array(marginals.variance[:, gp])), within)


def strongest_output(found: GPFacts, gp: int) -> tuple[int, float]:
    """Return the output that a GP moves most, and how far; of two that it moves as far, the one that it speaks for."""
    moves = found.moves[:, gp]
    furthest = np.flatnonzero(np.abs(moves) >= (1 - SAME) * np.abs(moves).max())
    place = int(furthest[moves[furthest].argmax()])
    return place, float(moves[place])


def drivers(found: GPFacts, output: int, most: int) -> list[Driver]:
    """Find the GPs that move an output, by falling share, at most so many."""
    moves = found.moves[output]
    total = float(np.abs(moves).sum())
    order = np.argsort(-np.abs(moves), kind="stable")[:most].tolist()
    return [Driver(gp, float(moves[gp]), abs(float(moves[gp])) / total) for gp in order if moves[gp] != 0]


def _array(tensor: Tensor) -> npt.NDArray[np.float64]:
    return tensor.detach().cpu().double().numpy()
