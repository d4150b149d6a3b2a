"""Calibration: of the rows with confidence 0.8, eight in ten should be right.

Confidence is the probability of the most probable class.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from svdkl.metrics.inputs import Floats, LabelledRows, Weights, labelled_rows, sums_by_group


class ReliabilityCurve(NamedTuple):
    """A reliability diagram, bin by bin, with NaN in bins without rows."""

    confidence: Floats  # mean confidence, (bins,)
    accuracy: Floats  # (bins,)
    counts: Floats  # number or weight of the rows, (bins,)


def reliability_curve(
    probabilities: ArrayLike,
    labels: ArrayLike,
    num_bins: int = 15,
    bins: Literal["width", "mass"] = "width",
    sample_weight: Weights = None,
) -> ReliabilityCurve:
    """Compute the mean confidence and the accuracy of the rows in each bin of confidence.

    Parameters
    ----------
    probabilities, labels, sample_weight
        Class probabilities (rows, classes), labels from 0 (rows,), and one weight for each row.
    num_bins, bins
        Bins of equal "width" are [0, 1/n), [1/n, 2/n), ..., [(n-1)/n, 1]. Bins of equal "mass" each hold the same
        number (or weight) of rows. Rows on a border count in both bins by their share, and rows of equal confidence are
        divided alike, so that their order plays no part.
    """
    if num_bins < 1:
        raise ValueError(f"Expected num_bins of at least 1, got {num_bins}: 15 is usual.")
    if bins not in ("width", "mass"):
        raise ValueError(f"Expected bins to be 'width' or 'mass', got {bins!r}: choose what the bins have in common.")
    rows = labelled_rows(probabilities, labels, sample_weight)
    counts, confidence, correct = (_equal_width if bins == "width" else _equal_mass)(rows, num_bins)
    filled = counts > 0
    divisor = np.where(filled, counts, 1.0)
    return ReliabilityCurve(
        np.where(filled, confidence / divisor, np.nan), np.where(filled, correct / divisor, np.nan), counts
    )


def expected_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, num_bins: int = 15, sample_weight: Weights = None
) -> float:
    """Compute the mean distance between confidence and accuracy over bins of equal width. Lower is better.

    :func:`reliability_curve` explains the parameters. A bin counts by the number (or weight) of its rows.
    """
    return _mean_gap(reliability_curve(probabilities, labels, num_bins, "width", sample_weight))


def adaptive_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, num_bins: int = 15, sample_weight: Weights = None
) -> float:
    """Compute the mean distance between confidence and accuracy over bins of equal mass. Lower is better.

    :func:`reliability_curve` explains the parameters. Only the most probable class counts, not the mean over classes.
    """
    return _mean_gap(reliability_curve(probabilities, labels, num_bins, "mass", sample_weight))


def _mean_gap(curve: ReliabilityCurve) -> float:
    filled = curve.counts > 0
    return float(np.average(np.abs(curve.confidence - curve.accuracy)[filled], weights=curve.counts[filled]))


def _equal_width(rows: LabelledRows, num_bins: int) -> tuple[Floats, Floats, Floats]:
    """Sum weight, confidence and correct rows in each bin of equal width."""
    bins = np.minimum((rows.confidence * num_bins).astype(int), num_bins - 1)
    counts, confidence, correct = (sums_by_group(bins, terms, num_bins) for terms in _terms(rows))
    return counts, confidence, correct


def _equal_mass(rows: LabelledRows, num_bins: int) -> tuple[Floats, Floats, Floats]:
    """Sum weight, confidence and correct rows in each bin of equal weight: differences of sums up to its ends."""
    _, level = np.unique(rows.confidence, return_inverse=True)
    sums = [np.concatenate([[0.0], np.cumsum(sums_by_group(level, terms))]) for terms in _terms(rows)]
    ends = np.linspace(0, sums[0][-1], num_bins + 1)
    counts, confidence, correct = (np.diff(np.interp(ends, sums[0], sum_)) for sum_ in sums)
    return counts, confidence, correct


def _terms(rows: LabelledRows) -> tuple[Floats, Floats, Floats]:
    return rows.weight, rows.weight * rows.confidence, rows.weight * rows.correct
