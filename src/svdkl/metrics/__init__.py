"""Measures of how good and how trustworthy predictions are."""

from svdkl.metrics.calibration import (
    ReliabilityCurve,
    adaptive_calibration_error,
    expected_calibration_error,
    reliability_curve,
)
from svdkl.metrics.classification import (
    accuracy,
    aurc,
    auroc,
    auroc_ood,
    brier_score,
    fpr95,
    negative_log_probability,
)
from svdkl.metrics.registry import METRICS, Metric, evaluate_classification, evaluate_regression
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

__all__ = [
    "METRICS",
    "Metric",
    "ReliabilityCurve",
    "accuracy",
    "adaptive_calibration_error",
    "aurc",
    "auroc",
    "auroc_ood",
    "bounds_coverage",
    "brier_score",
    "crps_ensemble",
    "crps_gaussian",
    "evaluate_classification",
    "evaluate_regression",
    "expected_calibration_error",
    "fpr95",
    "gaussian_nlpd",
    "interval_coverage",
    "mae",
    "negative_log_probability",
    "pinball_loss",
    "reliability_curve",
    "rmse",
]
