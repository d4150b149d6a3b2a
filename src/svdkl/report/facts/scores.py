"""Metrics with bootstrap intervals and baselines, calibration of probabilities and intervals, and confused classes."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from svdkl.metrics import (
    METRICS,
    Metric,
    evaluate_classification,
    evaluate_regression,
    expected_calibration_error,
    reliability_curve,
)
from svdkl.report.facts.predictions import INTERVAL, ClassPredictions, Ints, RealPredictions, Reals

BINS = 10  # bins of one class's probability: with more, many hold few rows
LEVELS = np.append(np.arange(1, 20) / 20, 0.99)  # levels of intervals: steps of 5 %, and one near all rows
CHANCE_DRAWS = 100  # draws of all outcomes: enough for their 95th percentile
RESAMPLES = 200  # tables of the bootstrap: its 95 % interval then has five of them beyond either end
RESAMPLED_ROWS = 5_000  # rows of a resample, at most: its spread is scaled to all rows, and a page is done in seconds

Evaluate = Callable[[np.ndarray[tuple[int], np.dtype[np.int64]]], dict[str, float]]


class Confusion(NamedTuple):
    """How many rows of one class are taken for another, and their share of the true class."""

    truth: int
    prediction: int
    rows: int
    share: float


def confusion_matrix(predictions: ClassPredictions) -> Ints:
    """Count the rows of each true class (first axis) by predicted class, (C, C)."""
    size = len(predictions.classes)
    pairs = predictions.labels * size + predictions.chosen
    return np.bincount(pairs, minlength=size * size).reshape(size, size)


def frequent_confusions(matrix: Ints, most: int = 8) -> list[Confusion]:
    """Find the pairs of classes that most rows are confused in."""
    wrong = matrix - np.diag(np.diag(matrix))
    places = np.argsort(-wrong, axis=None, kind="stable")[:most]
    pairs = [divmod(int(place), len(matrix)) for place in places]
    totals = matrix.sum(1)
    return [
        Confusion(true, said, int(wrong[true, said]), float(wrong[true, said] / totals[true]))
        for true, said in pairs
        if wrong[true, said] > 0
    ]


@dataclass(frozen=True)
class Reliability:
    """Predicted against observed shares, in bins that hold rows; ``low`` to ``high`` is what chance allows."""

    predicted: Reals
    observed: Reals
    low: Reals
    high: Reals
    counts: Reals


def top_label(predictions: ClassPredictions) -> Reliability:
    """Compare confidence with accuracy, in the bins of the expected calibration error."""
    curve = reliability_curve(predictions.probabilities, predictions.labels)
    return _with_chance(curve.confidence, curve.accuracy, curve.counts)


def of_class(predictions: ClassPredictions, place: int) -> Reliability:
    """Compare the probability of one class with its share of the rows."""
    p = predictions.probabilities[:, place]
    hits = (predictions.labels == place).astype(np.float64)
    bins = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    counts, predicted, observed = (
        np.bincount(bins, terms, BINS).astype(np.float64) for terms in (np.ones_like(p), p, hits)
    )
    filled = np.maximum(counts, 1)
    return _with_chance(predicted / filled, observed / filled, counts)


def calibration_error_by_chance(predictions: ClassPredictions) -> float:
    """Return the expected calibration error that true probabilities would stay below with probability 0.95.

    Even true probabilities show an error on a table, since outcomes are random.
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
    """Count how many targets lie within central intervals of each level."""
    levels = predictions.levels[:, target]
    observed = (levels[:, None] <= LEVELS).mean(0)
    return _with_chance(LEVELS, observed, np.full(len(LEVELS), float(len(levels))))


def _with_chance(predicted: Reals, observed: Reals, counts: Reals) -> Reliability:
    filled = counts > 0
    predicted, observed, counts = predicted[filled], observed[filled], counts[filled]
    low, high = chance_band(predicted, counts)
    return Reliability(predicted, observed, low, high, counts)


def chance_band(p: Reals, counts: npt.NDArray[np.float64]) -> tuple[Reals, Reals]:
    """Return where the share of hits lies with probability 0.95, if each of so many rows is one with probability p."""
    n, p = np.round(counts), np.clip(p, 0, 1)
    return stats.binom.ppf(0.025, n, p) / n, stats.binom.ppf(0.975, n, p) / n


@dataclass(frozen=True)
class Score:
    """A metric of the test rows, its 95 % interval (NaN where there is none), and the baseline's."""

    metric: Metric
    value: float
    low: float
    high: float
    baseline: float


def class_scores(predictions: ClassPredictions) -> list[Score]:
    """Compute all metrics of class probabilities; the baseline gives every row the shares of the classes."""
    p, labels = predictions.probabilities, predictions.labels
    shares = np.bincount(labels, minlength=p.shape[1]) / len(labels)
    baseline = evaluate_classification(np.broadcast_to(shares, p.shape), labels)
    return _scores(lambda rows: evaluate_classification(p[rows], labels[rows]), baseline, len(labels))


def real_scores(predictions: RealPredictions, target: int) -> list[Score]:
    """Compute all metrics of one target; the baseline gives every row the mean and deviation of the targets."""
    y, mean, std, level = (
        part[:, target] for part in (predictions.values, predictions.mean, predictions.std, predictions.levels)
    )

    def evaluate(rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> dict[str, float]:
        scores = evaluate_regression(mean[rows], std[rows], y[rows])
        # We count by the predicted interval itself, which need not be a Gaussian's.
        return scores | {"interval_coverage": float((level[rows] <= INTERVAL).mean())}

    spread = float(y.std())
    baseline = evaluate_regression(np.full_like(y, y.mean()), np.full_like(y, spread), y) if spread > 0 else {}
    return _scores(evaluate, baseline, len(y))


def _scores(evaluate: Evaluate, baseline: dict[str, float], num_rows: int) -> list[Score]:
    values = evaluate(np.arange(num_rows))
    intervals = _intervals(evaluate, values, num_rows)
    return [
        Score(METRICS[name], value, *intervals[name], baseline.get(name, math.nan)) for name, value in values.items()
    ]


def _intervals(evaluate: Evaluate, values: dict[str, float], num_rows: int) -> dict[str, tuple[float, float]]:
    """Return percentiles of the metrics of resamples, moved so that their mean is the metric itself.

    Some metrics, such as calibration errors, are larger on every resample than on the rows: repeated rows look like
    miscalibration. Only the spread of the resamples is of interest.
    """
    if num_rows < 2:
        return dict.fromkeys(values, (math.nan, math.nan))
    random = np.random.default_rng(0)
    size = min(num_rows, RESAMPLED_ROWS)
    resamples = [evaluate(random.integers(num_rows, size=size)) for _ in range(RESAMPLES)]
    return {
        name: _interval(METRICS[name], value, np.array([one[name] for one in resamples]), math.sqrt(size / num_rows))
        for name, value in values.items()
    }


def _interval(metric: Metric, value: float, resampled: Reals, scale: float) -> tuple[float, float]:
    resampled = resampled[np.isfinite(resampled)]
    if len(resampled) < RESAMPLES / 2 or not math.isfinite(value):
        return math.nan, math.nan
    tails = ((1 - INTERVAL) / 2, (1 + INTERVAL) / 2)
    ends = value + scale * (np.quantile(resampled, tails) - resampled.mean())
    low, high = np.clip(ends, *_range(metric))
    return float(low), float(high)


def _range(metric: Metric) -> tuple[float, float]:
    """Return the least and the largest value that a metric can take."""
    highest = {"share": 1.0, "probability": 1.0, "squared probability": 2.0}.get(metric.unit, math.inf)
    return (-math.inf if metric.name == "gaussian_nlpd" else 0.0), highest
