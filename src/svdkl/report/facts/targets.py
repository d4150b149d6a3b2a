"""The true targets of the test rows, and what they are called."""

from typing import Any

import numpy as np
import numpy.typing as npt

from svdkl.estimators import SVDKLClassifier, SVDKLRegressor
from svdkl.reasons import first_line

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def class_numbers(estimator: SVDKLClassifier, y: Any) -> Ints:
    """Positions of the labels in ``classes_``, (rows,)."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"Expected one label a row, got y of shape {labels.shape}: give one column.")
    classes = estimator.classes_
    places = {label: place for place, label in enumerate(classes.tolist())}
    try:
        return np.array([places[label] for label in labels.tolist()], dtype=np.int64)
    except (KeyError, TypeError) as error:
        known = ", ".join(map(repr, classes.tolist()[:10]))
        raise ValueError(
            f"Expected labels out of the classes {known}, got {error}: leave out rows of other classes."
        ) from error


def real_values(estimator: SVDKLRegressor, y: Any) -> Reals:
    """Targets (rows, targets)."""
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Expected numbers as targets, got others ({first_line(error)}): convert them.") from error
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or values.shape[1] != estimator.n_outputs_:
        raise ValueError(f"Expected {estimator.n_outputs_} target(s) a row, got y of shape {np.shape(y)}.")
    if not np.isfinite(values).all():
        raise ValueError("Expected finite targets, got NaN or infinity: leave out rows without a target.")
    return values


def target_names(y: Any, run: dict[str, Any], num_targets: int) -> tuple[str, ...]:
    """What the run or the table calls the targets, else "target"."""
    given = run.get("target")
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple):
        columns = getattr(y, "columns", None)
        name = getattr(y, "name", None)
        names = list(columns) if columns is not None else [name] if isinstance(name, str) and name else []
    if len(names) == num_targets:
        return tuple(str(name) for name in names)
    return ("target",) if num_targets == 1 else tuple(f"target {place + 1}" for place in range(num_targets))
