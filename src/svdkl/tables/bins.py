"""Choose the bins of the piecewise-linear encoding of a number, and the values that stand on their own."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from svdkl.tables.column import Array, read_array
from svdkl.tables.numbers import compress, robust_scale

Task = Literal["classification", "regression"]

MAX_CLASSES = 50  # a tree's time grows with the classes: the rarest of more count as one
MIN_LEAF = 5  # fewest rows of a bin that a tree chooses: fewer show chance only
LEAVES = 2000  # in large tables, such a bin holds at least one row in this many
MOST_LEVELS = 128  # more frequent values than this are a scale, not a list
TAIL = 0.001  # share of rows beyond the outermost edges on either side, so that far rows do not stretch a bin


@dataclass(frozen=True)
class Target:
    """Targets of some rows: class numbers (rows,), or real values (rows,) or (rows, C)."""

    values: Array
    by_class: bool


def read_target(y: Any, num_rows: int, rows: Array, task: Task | None) -> Target:
    """Read the targets of the chosen rows.

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
    """Return whether targets are text, booleans or whole numbers with at most 50 values."""
    column = read_array("y", y)
    return column.storage != "number" or are_class_numbers(np.unique(column.values))


def are_class_numbers(distinct: Array) -> bool:
    """Tell whether the distinct values of a target are few whole numbers, so that they may name classes."""
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
    """Read real targets, scaled so that a few far ones do not attract all the edges."""
    column = read_array("y", y)
    if column.storage not in ("number", "boolean") or column.missing is not None:
        raise ValueError(
            "Expected y of finite numbers, got other or missing values: drop those rows, or use task='classification'."
        )
    values = column.values.astype(np.float64)
    return compress(values, *robust_scale(np.sort(values)))


def choose_edges(z: npt.NDArray[np.float32], target: Target | None, num_bins: int) -> tuple[float, ...]:
    """Choose the edges of at most ``num_bins`` bins of a scaled number: increasing, and exact in float32.

    With a target, the inner edges are the thresholds of a small decision tree that predicts the target from this number
    alone: bins are narrow where the target changes. Without one, bins hold equal shares of the rows, or one value each
    if there are few values. There are no edges if the number has at most two values, or the tree finds no threshold.
    """
    ordered = np.sort(z)
    distinct = ordered[np.flatnonzero(np.diff(ordered, prepend=-np.inf))]
    if len(distinct) <= 2:
        return ()
    if target is not None:
        inner = _thresholds(z, target, num_bins)
    elif len(distinct) <= num_bins:
        inner = (distinct[1:] + distinct[:-1]) / 2
    else:
        inner = ordered[np.arange(1, num_bins) * len(ordered) // num_bins]
    inner = np.unique(inner.astype(np.float32))
    inner = inner[(inner > ordered[0]) & (inner < ordered[-1])]
    if len(inner) == 0:
        return ()
    rank = int(TAIL * (len(ordered) - 1))
    low, high = ordered[rank], ordered[-1 - rank]
    low, high = low if low < inner[0] else ordered[0], high if high > inner[-1] else ordered[-1]
    return (float(low), *inner.tolist(), float(high))


def choose_levels(z: npt.NDArray[np.float32], min_count: int) -> tuple[float, ...]:
    """Choose the values of a scaled number that get a weight of their own: those of at least ``min_count`` rows.

    There are none if these values are more than 128, hold fewer than half of the rows, or are at most two, which the
    number itself tells apart.
    """
    values, counts = np.unique(z, return_counts=True)
    often = counts >= min_count
    if not 2 < np.count_nonzero(often) <= MOST_LEVELS or 2 * counts[often].sum() < len(z):
        return ()
    return tuple(values[often].tolist())


def _thresholds(z: npt.NDArray[np.float32], target: Target, num_bins: int) -> npt.NDArray[Any]:
    # This import takes a second, and a fitted encoder does not need it.
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    tree_type = DecisionTreeClassifier if target.by_class else DecisionTreeRegressor
    # The seed breaks ties between columns, of which there is one.
    tree = tree_type(max_leaf_nodes=num_bins, min_samples_leaf=max(MIN_LEAF, len(z) // LEAVES), random_state=0)
    tree.fit(z[:, None], target.values)
    return tree.tree_.threshold[tree.tree_.children_left >= 0]
