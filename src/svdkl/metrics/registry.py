"""A table of all metrics with unit and direction, and functions that compute the usual ones together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy.typing as npt

from svdkl.metrics.calibration import adaptive_calibration_error, expected_calibration_error
from svdkl.metrics.classification import accuracy, aurc, auroc, brier_score, negative_log_probability
from svdkl.metrics.ood import auroc_ood, fpr95
from svdkl.metrics.regression import (
    bounds_coverage,
    crps_ensemble,
    crps_gaussian,
    gaussian_nlpd,
    interval_coverage,
    mae,
    pinball_loss,
    rmse,
)


@dataclass(frozen=True)
class Metric:
    """A metric with its unit and direction."""

    name: str
    function: Callable[..., float]
    unit: str  # "share" of rows, "nats", "probability", "squared probability", or "target", the unit of the targets
    higher_is_better: bool | None  # None: best where it equals the probability of the interval
    kind: Literal["classification", "regression", "ood"]


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("accuracy", accuracy, "share", True, "classification"),
        Metric("negative_log_probability", negative_log_probability, "nats", False, "classification"),
        Metric("brier_score", brier_score, "squared probability", False, "classification"),
        Metric("auroc", auroc, "probability", True, "classification"),
        Metric("aurc", aurc, "share", False, "classification"),
        Metric("expected_calibration_error", expected_calibration_error, "probability", False, "classification"),
        Metric("adaptive_calibration_error", adaptive_calibration_error, "probability", False, "classification"),
        Metric("rmse", rmse, "target", False, "regression"),
        Metric("mae", mae, "target", False, "regression"),
        Metric("gaussian_nlpd", gaussian_nlpd, "nats", False, "regression"),
        Metric("crps_gaussian", crps_gaussian, "target", False, "regression"),
        Metric("interval_coverage", interval_coverage, "share", None, "regression"),
        Metric("crps_ensemble", crps_ensemble, "target", False, "regression"),
        Metric("bounds_coverage", bounds_coverage, "share", None, "regression"),
        Metric("pinball_loss", pinball_loss, "target", False, "regression"),
        Metric("auroc_ood", auroc_ood, "probability", True, "ood"),
        Metric("fpr95", fpr95, "share", False, "ood"),
    )
}


def evaluate_classification(
    probabilities: npt.ArrayLike, labels: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
) -> dict[str, float]:
    """Compute every classification metric, by name. ``auroc`` is NaN where all labels are the same."""
    return {
        name: metric.function(probabilities, labels, sample_weight=sample_weight)
        for name, metric in METRICS.items()
        if metric.kind == "classification"
    }


def evaluate_regression(
    mean: npt.ArrayLike, std: npt.ArrayLike, targets: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
) -> dict[str, float]:
    """Compute every metric of a Gaussian prediction, by name; ``interval_coverage`` is for the 95 % interval.

    Parameters
    ----------
    mean, std, targets, sample_weight
        Arrays (rows,) or (rows, outputs), the std with the noise included; and one weight for each row.
    """
    return {
        "rmse": rmse(mean, targets, sample_weight),
        "mae": mae(mean, targets, sample_weight),
        "gaussian_nlpd": gaussian_nlpd(mean, std, targets, sample_weight),
        "crps_gaussian": crps_gaussian(mean, std, targets, sample_weight),
        "interval_coverage": interval_coverage(mean, std, targets, sample_weight=sample_weight),
    }
