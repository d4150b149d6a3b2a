"""A table of all metrics with unit and direction, and functions that compute the usual ones together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike

from svdkl.metrics import calibration, classification, regression
from svdkl.metrics.inputs import Weights


@dataclass(frozen=True)
class Metric:
    """A metric with its unit and direction."""

    function: Callable[..., float]
    unit: str  # "share" of rows, "nats", "probability", "squared probability", or "target", the unit of the targets
    higher_is_better: bool | None  # None: best where it equals the probability of the interval
    kind: Literal["classification", "regression", "ood"]

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(classification.accuracy, "share", True, "classification"),
        Metric(classification.negative_log_probability, "nats", False, "classification"),
        Metric(classification.brier_score, "squared probability", False, "classification"),
        Metric(classification.auroc, "probability", True, "classification"),
        Metric(classification.aurc, "share", False, "classification"),
        Metric(calibration.expected_calibration_error, "probability", False, "classification"),
        Metric(calibration.adaptive_calibration_error, "probability", False, "classification"),
        Metric(regression.rmse, "target", False, "regression"),
        Metric(regression.mae, "target", False, "regression"),
        Metric(regression.gaussian_nlpd, "nats", False, "regression"),
        Metric(regression.crps_gaussian, "target", False, "regression"),
        Metric(regression.interval_coverage, "share", None, "regression"),
        Metric(regression.crps_ensemble, "target", False, "regression"),
        Metric(regression.bounds_coverage, "share", None, "regression"),
        Metric(regression.pinball_loss, "target", False, "regression"),
        Metric(classification.auroc_ood, "probability", True, "ood"),
        Metric(classification.fpr95, "share", False, "ood"),
    )
}


def evaluate_classification(
    probabilities: ArrayLike, labels: ArrayLike, sample_weight: Weights = None
) -> dict[str, float]:
    """Compute every classification metric, by name. ``auroc`` is NaN where all labels are the same."""
    return {
        name: metric.function(probabilities, labels, sample_weight=sample_weight)
        for name, metric in METRICS.items()
        if metric.kind == "classification"
    }


def evaluate_regression(
    mean: ArrayLike, std: ArrayLike, targets: ArrayLike, sample_weight: Weights = None
) -> dict[str, float]:
    """Compute every metric of a Gaussian prediction, by name; ``interval_coverage`` is for the 95 % interval.

    Parameters
    ----------
    mean, std, targets, sample_weight
        Arrays (rows,) or (rows, outputs), the std with the noise included; and one weight for each row.
    """
    return {
        "rmse": regression.rmse(mean, targets, sample_weight),
        "mae": regression.mae(mean, targets, sample_weight),
        "gaussian_nlpd": regression.gaussian_nlpd(mean, std, targets, sample_weight),
        "crps_gaussian": regression.crps_gaussian(mean, std, targets, sample_weight),
        "interval_coverage": regression.interval_coverage(mean, std, targets, sample_weight=sample_weight),
    }
