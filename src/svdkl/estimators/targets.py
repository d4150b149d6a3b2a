"""Targets, which are classes or real numbers: read from a caller, brought to tensors, and written back.

Both kinds have the same methods, so that nobody else asks which kind it is.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils import assert_all_finite, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from svdkl.estimators.options import Options
from svdkl.shapes import Tensor
from svdkl.tables.bins import Task
from svdkl.tables.column import read_array

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

REAL, COUNTS = ("gaussian", "student_t"), ("poisson", "negative_binomial")
LARGEST = 1e100  # target, so that variances are finite in float64, too; the smallest accordingly


@dataclass(frozen=True, eq=False)
class Classes:
    """The labels of a classification, in the order of the probabilities' columns."""

    labels: Array

    estimator: ClassVar[str] = "SVDKLClassifier"
    task: ClassVar[Task] = "classification"
    likelihood: ClassVar[str] = "softmax"

    @classmethod
    def learn(cls, y: object, options: Options, labels: object = None) -> "Classes":
        """Find the labels that targets have, or take those that are to come."""
        found = np.unique(_read_labels(y if labels is None else labels))
        if len(found) < 2:
            raise ValueError(
                f"Expected at least 2 classes, got 1 class, {found.tolist()[0]!r}: there is nothing to tell apart."
            )
        return cls(found)

    @property
    def num_outputs(self) -> int:
        """C, the number of classes."""
        return len(self.labels)

    def encode(self, y: object) -> Array:
        """Turn labels into class numbers 0..C-1, (N,)."""
        y = _read_labels(y)
        known = np.isin(y, self.labels)
        if not known.all():
            raise ValueError(
                f"Expected labels out of the classes {', '.join(map(repr, self.labels.tolist()[:10]))}, got "
                f"{y[~known].tolist()[0]!r}: fit a new model for other classes."
            )
        return np.searchsorted(self.labels, y)

    def check_same(self, labels: object) -> None:
        """Refuse other labels than those that are known."""
        if labels is not None and not np.array_equal(np.unique(_read_labels(labels)), self.labels):
            raise ValueError("Expected the same classes as in the first call, got others: leave them out.")

    def scaled_to(self, y: Array, weight: Floats | None) -> "Classes":
        """Return the classes themselves, which have no scale."""
        return self

    def to_tensor(self, y: Array) -> Tensor:
        """Turn class numbers into what the likelihood takes."""
        return torch.from_numpy(y)

    def to_json(self) -> dict[str, Any]:
        """Return the labels with their type, as JSON can hold them."""
        labels = self.labels
        kind = "text" if labels.dtype.kind == "O" else labels.dtype.str
        if labels.dtype.kind not in "OUbiuf" or (kind == "text" and not all(isinstance(one, str) for one in labels)):
            raise ValueError("Expected classes that are numbers, booleans or text to save them, got other objects.")
        return {"classes": {"type": kind, "values": labels.tolist()}}

    @classmethod
    def from_json(cls, data: dict[str, Any], options: Options) -> "Classes":
        """Return the classes that :meth:`to_json` wrote."""
        kind, values = data["classes"]["type"], data["classes"]["values"]
        return cls(np.array(values, dtype=object if kind == "text" else np.dtype(kind)))


@dataclass(frozen=True, eq=False)
class Reals:
    """One or several real targets or counts, and what real ones are standardised by inside.

    Attributes
    ----------
    mean, scale
        For each target; 0 and 1 for counts.
    single
        Whether a row's target is a number and not a row of numbers.
    """

    likelihood: str
    mean: Floats
    scale: Floats
    single: bool

    estimator: ClassVar[str] = "SVDKLRegressor"
    task: ClassVar[Task] = "regression"

    @classmethod
    def learn(cls, y: object, options: Options, labels: object = None) -> "Reals":
        """Find how many targets a row has."""
        y = _checked_numbers(y)
        num_outputs = 1 if y.ndim == 1 else y.shape[1]
        return cls(options.likelihood, np.zeros(num_outputs), np.ones(num_outputs), y.ndim == 1)

    @property
    def num_outputs(self) -> int:
        """C, the number of targets of a row."""
        return len(self.mean)

    def encode(self, y: object) -> Array:
        """Turn targets into an array (N, C), in their own units."""
        y = _checked_numbers(y)
        targets = y[:, None] if y.ndim == 1 else y
        if targets.shape[1] != self.num_outputs:
            raise ValueError(
                f"Expected {self.num_outputs} target(s) a row, as when it was fitted, got {targets.shape[1]}: leave "
                f"out the others."
            )
        whole = (targets >= 0) & (targets == np.floor(targets))
        if self.likelihood in COUNTS and not whole.all():
            raise ValueError(
                f"Expected counts 0, 1, 2, ... with likelihood={self.likelihood!r}, got {targets[~whole][0]:g}: use "
                f"likelihood='gaussian' for other numbers."
            )
        return targets

    def check_same(self, labels: object) -> None:
        """Accept that real targets have no labels."""

    def scaled_to(self, y: Array, weight: Floats | None) -> "Reals":
        """Return targets that standardise these rows; counts keep their units."""
        if self.likelihood in COUNTS:
            return self
        size = np.abs(y).max(0)
        wrong = size[(size > LARGEST) | ((size > 0) & (size < 1 / LARGEST))]
        if len(wrong):
            raise ValueError(
                f"Expected targets of a size between {1 / LARGEST:g} and {LARGEST:g}, got {wrong[0]:g}: choose another "
                f"unit for them."
            )
        mean = np.average(y, 0, weight)
        spread = np.sqrt(np.average((y - mean) ** 2, 0, weight))
        varies = (y != y[:1]).any(0)  # the mean of equal numbers need not be that number
        return replace(self, mean=mean, scale=np.where(varies & (spread > 0), spread, 1.0))

    def to_tensor(self, y: Array) -> Tensor:
        """Turn targets into what the likelihood takes: standardised, in single precision."""
        targets = torch.from_numpy((y - self.mean) / self.scale).float()
        if not bool(targets.isfinite().all()):
            raise ValueError(
                f"Expected targets of about the size that single precision can hold, got {np.abs(y).max():g}: choose "
                f"another unit for them."
            )
        return targets

    def decode(self, values: Floats) -> Floats:
        """Bring standardised values (N, C, ...) back to the targets' units and shape."""
        axes = (-1,) + (1,) * (values.ndim - 2)
        return self.shaped(values * self.scale.reshape(axes) + self.mean.reshape(axes))

    def shaped(self, values: Floats) -> Floats:
        """Leave out the targets' axis, if a row's target is a number."""
        return values[:, 0] if self.single else values

    def to_json(self) -> dict[str, Any]:
        """Return means and scales as JSON can hold them."""
        return {"single": self.single, "mean": self.mean.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_json(cls, data: dict[str, Any], options: Options) -> "Reals":
        """Return the targets that :meth:`to_json` wrote."""
        mean, scale = (np.array(data[name], np.float64) for name in ("mean", "scale"))
        finite = np.isfinite([*mean, *scale]).all() and (scale > 0).all()
        if not finite or not len(mean) == len(scale) > 0:
            raise ValueError("not the means and scales of targets")
        return cls(options.likelihood, mean, scale, bool(data["single"]))


Targets = Classes | Reals


def _read_labels(labels: object) -> Array:
    """Read labels as an array: none is missing, and all of them are text or none."""
    array = np.asarray(labels)
    if array.dtype.kind == "T":
        array = array.astype(object)
    array = column_or_1d(array, warn=True)
    if array.dtype.kind != "O":
        assert_all_finite(array, input_name="y")
        check_classification_targets(array)
        return array
    column = read_array("y", array)
    if column.missing is not None:
        raise ValueError(
            f"Expected a label in all rows, got {int(column.missing.sum())} missing ones (Input y contains NaN): drop "
            f"these rows first."
        )
    if column.storage == "text" and not all(isinstance(label, str) for label in array.tolist()):
        raise ValueError("Expected labels of one kind, got text beside other values: convert all of them to text.")
    check_classification_targets(array)
    return array


def _checked_numbers(y: object) -> Floats:
    return check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", estimator=Reals.estimator)
