"""How good and how trustworthy predictions are."""

from svdkl.metrics.calibration import expected_calibration_error
from svdkl.metrics.classification import accuracy, negative_log_probability

__all__ = ["accuracy", "expected_calibration_error", "negative_log_probability"]
