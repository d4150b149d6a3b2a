"""Whether probabilities mean what they say."""

import numpy as np

from svdkl.metrics.classification import Labels, Probabilities


def expected_calibration_error(probabilities: Probabilities, labels: Labels, num_bins: int = 15) -> float:
    """Mean distance between confidence and accuracy over bins of equal width, weighted by rows. Lower is better."""
    confidence = probabilities.max(1).astype(np.float64)
    correct = probabilities.argmax(1) == labels
    bins = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    gap = np.bincount(bins, confidence - correct, minlength=num_bins)
    return float(np.abs(gap).sum() / len(labels))
