"""Whether probabilities and intervals mean what they say."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from svdkl.metrics import expected_calibration_error, reliability_curve
from svdkl.report.facts.predictions import ClassPredictions, RealPredictions
from svdkl.report.facts.targets import Reals

BINS = 10  # of one class's probability
LEVELS = np.append(np.arange(1, 20) / 20, 0.99)
CHANCE_DRAWS = 100


@dataclass(frozen=True)
class Reliability:
    """Predicted against observed shares, in bins that hold rows; ``low`` to ``high`` is what chance allows."""

    predicted: Reals
    observed: Reals
    low: Reals
    high: Reals
    counts: Reals


def top_label(predictions: ClassPredictions) -> Reliability:
    """Of the most probable class, in the bins of the expected calibration error."""
    curve = reliability_curve(predictions.probabilities, predictions.labels)
    return _with_chance(curve.confidence, curve.accuracy, curve.counts)


def of_class(predictions: ClassPredictions, place: int) -> Reliability:
    """Of the probability of one class."""
    p = predictions.probabilities[:, place]
    hits = (predictions.labels == place).astype(np.float64)
    bins = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    counts, predicted, observed = (
        np.bincount(bins, terms, BINS).astype(np.float64) for terms in (np.ones_like(p), p, hits)
    )
    filled = np.maximum(counts, 1)
    return _with_chance(predicted / filled, observed / filled, counts)


def calibration_error_by_chance(predictions: ClassPredictions) -> float:
    """The expected calibration error that true probabilities stay below with probability 0.95 on so many rows.

    Even they show an error on few rows, since outcomes are random.
    """
    rows = predictions.doubt.rows
    p = predictions.probabilities[rows]
    random = np.random.default_rng(0)
    ends = p.cumsum(1)
    errors = []
    for _ in range(CHANCE_DRAWS):
        drawn = (random.random((len(p), 1)) * ends[:, -1:] > ends).sum(1)
        errors.append(expected_calibration_error(p, np.minimum(drawn, p.shape[1] - 1)))
    return float(np.quantile(errors, 0.95)) * float(np.sqrt(len(rows) / len(predictions.labels)))


def coverage(predictions: RealPredictions, target: int) -> Reliability:
    """How many targets lie within central intervals of each probability."""
    levels = predictions.levels[:, target]
    observed = (levels[:, None] <= LEVELS).mean(0)
    return _with_chance(LEVELS, observed, np.full(len(LEVELS), float(len(levels))))


def _with_chance(predicted: Reals, observed: Reals, counts: Reals) -> Reliability:
    filled = counts > 0
    predicted, observed, counts = predicted[filled], observed[filled], counts[filled]
    low, high = chance_band(predicted, counts)
    return Reliability(predicted, observed, low, high, counts)


def chance_band(p: Reals, counts: npt.NDArray[Any]) -> tuple[Reals, Reals]:
    """Where the share of hits among so many rows lies with probability 0.95, if each is one with probability p."""
    n, p = np.round(counts), np.clip(p, 0, 1)
    return stats.binom.ppf(0.025, n, p) / n, stats.binom.ppf(0.975, n, p) / n
