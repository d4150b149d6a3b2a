"""Metrics with bootstrap intervals, beside those of a prediction that knows nothing of a row."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from svdkl.metrics import (
    METRICS,
    Metric,
    evaluate_classification,
    evaluate_regression,
)
from svdkl.report.facts.predictions import INTERVAL, ClassPredictions, RealPredictions
from svdkl.report.facts.targets import Reals

RESAMPLES = 200
RESAMPLED_ROWS = 5_000  # of a resample, at most; its spread is then scaled to that of all rows

Evaluate = Callable[[np.ndarray[tuple[int], np.dtype[np.int64]]], dict[str, float]]


@dataclass(frozen=True)
class Score:
    """A metric of the test rows, its 95 % interval (NaN where there is none), and the baseline's."""

    metric: Metric
    value: float
    low: float
    high: float
    baseline: float


def class_scores(predictions: ClassPredictions) -> list[Score]:
    """All metrics of class probabilities. The baseline gives every row the shares of the classes among the rows."""
    p, labels = predictions.probabilities, predictions.labels
    shares = np.bincount(labels, minlength=p.shape[1]) / len(labels)
    baseline = evaluate_classification(np.broadcast_to(shares, p.shape), labels)
    return _scores(lambda rows: evaluate_classification(p[rows], labels[rows]), baseline, len(labels))


def real_scores(predictions: RealPredictions, target: int) -> list[Score]:
    """All metrics of one target. The baseline gives every row the mean and the deviation of the rows' targets."""
    y, mean, std, level = (
        part[:, target] for part in (predictions.values, predictions.mean, predictions.std, predictions.levels)
    )

    def evaluate(rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> dict[str, float]:
        scores = evaluate_regression(mean[rows], std[rows], y[rows])
        # The predicted interval itself, which need not be a Gaussian's.
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
    """Percentiles of the metrics of resamples, moved so that their mean is the metric itself.

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
    """The values that a metric can take."""
    highest = {"share": 1.0, "probability": 1.0, "squared probability": 2.0}.get(metric.unit, math.inf)
    return (-math.inf if metric.name == "gaussian_nlpd" else 0.0), highest
