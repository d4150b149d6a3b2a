"""What is to be predicted, in the form that the choice of bins needs it."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from svdkl.tabular.scaling import compress, robust_scale
from svdkl.tabular.values import Array, read_array

Task = Literal["classification", "regression"]

MAX_CLASSES = 50  # the rarest of more classes count as one


@dataclass(frozen=True)
class Target:
    """Targets of some rows: class numbers (rows,), or real values (rows,) or (rows, C)."""

    values: Array
    by_class: bool


def read_target(y: Any, num_rows: int, rows: Array, task: Task | None) -> Target:
    """The targets of the chosen rows.

    Without a task, targets that are text, booleans or whole numbers with at most 50 values are classes.
    """
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or len(array) != num_rows:
        raise ValueError(f"Expected y with one row for each of the {num_rows} of X, got shape {np.shape(y)}.")
    array = array[rows]
    if array.ndim == 2:  # several targets at once; labels of 0 and 1 among them are split as well by squared errors
        return Target(np.stack([_real(column) for column in array.T], axis=1), False)
    if task is None:
        task = "classification" if looks_like_classes(array) else "regression"
    return Target(_classes(array), True) if task == "classification" else Target(_real(array), False)


def looks_like_classes(y: Array) -> bool:
    """Whether targets are text, booleans or whole numbers with at most 50 values."""
    column = read_array("y", y)
    if column.storage != "number":
        return True
    distinct = np.unique(column.values)
    return len(distinct) <= MAX_CLASSES and bool((distinct == np.round(distinct)).all())


def _classes(y: Array) -> Array:
    if y.dtype.kind in "OUST":
        places: dict[Any, int] = {}
        codes = np.fromiter((places.setdefault(label, len(places)) for label in y.tolist()), np.int64, len(y))
    else:
        codes = np.unique(y, return_inverse=True)[1]
    frequency = np.bincount(codes)
    rank = np.empty_like(frequency)
    rank[np.argsort(-frequency, kind="stable")] = np.arange(len(frequency))
    return np.minimum(rank, MAX_CLASSES - 1)[codes]


def _real(y: Array) -> Array:
    """Real targets, scaled so that a few far ones do not attract all the edges."""
    column = read_array("y", y)
    if column.storage not in ("number", "boolean") or column.missing is not None:
        raise ValueError(
            "Expected y of finite numbers, got other or missing values: drop those rows, or use task='classification'."
        )
    values = column.values.astype(np.float64)
    return compress(values, *robust_scale(np.sort(values)))
