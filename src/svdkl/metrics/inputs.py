"""Checks that turn the inputs of metrics into float64 arrays, and weighted sums and means."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Truths = npt.NDArray[np.bool_]
Weights = ArrayLike | None  # one weight for each row, or None for equal ones


class LabelledRows(NamedTuple):
    """Class probabilities, labels and weights of the rows whose weight is not 0."""

    probabilities: Floats  # (rows, classes)
    labels: Integers  # (rows,)
    weight: Floats  # (rows,)

    @property
    def confidence(self) -> Floats:
        """Probability of the most probable class."""
        return self.probabilities.max(1)

    @property
    def correct(self) -> Truths:
        """Whether the most probable class (the first of equals) is the label."""
        return self.probabilities.argmax(1) == self.labels


def labelled_rows(probabilities: ArrayLike, labels: ArrayLike, sample_weight: Weights) -> LabelledRows:
    """Check class probabilities (rows, classes), labels (rows,) and weights (rows,)."""
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    if p.ndim != 2 or p.size == 0:
        raise ValueError(
            f"Expected probabilities of shape (rows, classes) with at least one row, got {p.shape}: "
            "give a column to each class, for two classes 1 - p and p."
        )
    num_rows, num_classes = p.shape
    if y.shape != (num_rows,):
        raise ValueError(
            f"Expected labels of shape ({num_rows},), got {y.shape}: give the number of one class for each row."
        )
    if y.dtype.kind not in "iub":
        raise ValueError(f"Expected integer labels, got {y.dtype}: number the classes from 0 to {num_classes - 1}.")
    columns = f"labels from 0 to {num_classes - 1}"
    _refuse((y < 0) | (y >= num_classes), y, columns, "number the classes as the columns of the probabilities")
    _refuse(~(p >= 0), p, "probabilities of at least 0", "apply a softmax to logits, find the cause of NaN")
    total = p.sum(1)
    one = "probabilities that sum to 1"
    _refuse(~(np.abs(total - 1) <= 1e-3), total, one, "apply a softmax to logits, or divide each row by its sum")
    weight = _weights(sample_weight, num_rows)
    some = weight > 0
    return LabelledRows(p[some], y[some].astype(np.int64), weight[some])


def aligned_rows(sample_weight: Weights, **arrays: ArrayLike) -> tuple[Floats, ...]:
    """Check finite arrays of one shape, (rows,) or (rows, outputs), and return them with the weights (rows,) last.

    ``std`` has to be above 0. The bounds ``lower`` and ``upper`` of an interval may be infinite, but not swapped.
    """
    checked = {name: np.asarray(values, dtype=np.float64) for name, values in arrays.items()}
    shape = checked["targets"].shape
    if len(shape) not in (1, 2) or 0 in shape:
        raise ValueError(
            f"Expected targets of shape (rows,) or (rows, outputs) with at least one row, got {shape}: reshape them."
        )
    for name, values in checked.items():
        if values.shape != shape:
            raise ValueError(
                f"Expected {name} of the targets' shape {shape}, got {values.shape}: give one value for each target."
            )
        if name in ("lower", "upper"):
            _refuse(np.isnan(values), values, f"{name} bounds without NaN", "use infinity for an open end")
        else:
            _refuse(~np.isfinite(values), values, f"finite {name}", "leave such rows out, or find the cause")
    if "std" in checked:
        _refuse(checked["std"] <= 0, checked["std"], "std above 0", "give the predictive std, with the noise included")
    if "lower" in checked:
        swapped = checked["lower"] > checked["upper"]
        _refuse(swapped, checked["lower"], "lower bounds not above the upper ones", "swap them")
    return *checked.values(), _weights(sample_weight, shape[0])


def sampled_rows(samples: ArrayLike, targets: ArrayLike, sample_weight: Weights) -> tuple[Floats, Floats, Floats]:
    """Check that there are two or more samples of each target, counted along the first axis."""
    y, weight = aligned_rows(sample_weight, targets=targets)
    x = np.asarray(samples, dtype=np.float64)
    if x.shape[1:] != y.shape or len(x) < 2:
        expected = ", ".join(map(str, ("T", *y.shape)))
        raise ValueError(
            f"Expected samples of shape ({expected}), T at least 2, got {x.shape}: count samples along the first axis."
        )
    by_row = x.swapaxes(0, 1)
    _refuse(~np.isfinite(by_row), by_row, "finite samples", "leave such rows out, or find the cause")
    return x, y, weight


def scores(name: str, values: ArrayLike) -> Floats:
    """Check scores (rows,). Only their order matters, so they may be infinite."""
    checked = np.asarray(values, dtype=np.float64)
    if checked.ndim != 1 or checked.size == 0:
        raise ValueError(
            f"Expected {name} of shape (rows,) with at least one row, got {checked.shape}: give each row one score."
        )
    _refuse(np.isnan(checked), checked, f"{name} without NaN", "leave such rows out, or find the cause")
    return checked


def fraction(name: str, value: float) -> float:
    """Check that a number is between 0 and 1, ends excluded."""
    if not 0 < value < 1:
        raise ValueError(f"Expected {name} between 0 and 1, got {value}: write 95 % as 0.95.")
    return value


def _refuse(wrong: Truths, values: npt.NDArray[np.generic], expected: str, way_out: str) -> None:
    """Raise a ValueError that names the first wrong value and its row, if there is one."""
    if wrong.any():
        where = np.unravel_index(wrong.argmax(), wrong.shape)
        raise ValueError(f"Expected {expected}, got {values[where]} in row {where[0]}: {way_out}.")


def _weights(sample_weight: Weights, num_rows: int) -> Floats:
    if sample_weight is None:
        return np.ones(num_rows)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (num_rows,):
        raise ValueError(
            f"Expected sample weights of shape ({num_rows},), got {weight.shape}: give one weight for each row."
        )
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    _refuse(wrong, weight, "finite sample weights of at least 0", "use 0 to leave a row out")
    if not weight.any():
        raise ValueError("Expected a sample weight above 0, got none: leave the weights out to count all rows alike.")
    return weight


def weighted_mean(values: Floats | Truths, weight: Floats) -> float:
    """Average over the outputs of each row, then over the rows by their weight."""
    return float(np.average(values if values.ndim == 1 else values.mean(1), weights=weight))


def sums_by_group(group: npt.NDArray[np.integer], terms: Floats, num_groups: int = 0) -> Floats:
    """Sum the terms in each group, where groups are numbered from 0."""
    return np.bincount(group, terms, num_groups).astype(np.float64, copy=False)
