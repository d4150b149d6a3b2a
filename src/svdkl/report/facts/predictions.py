"""How wide a central interval has to be to hold the truth: all that coverage at any level needs to know.

The true targets of the test rows, and what they are called.

What a model says of the test rows, beside the truth. All other facts are made from this.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from svdkl.errors import first_line
from svdkl.estimators import SVDKLClassifier, SVDKLRegressor
from svdkl.estimators.examples import num_rows, take_rows
from svdkl.estimators.options import has_head
from svdkl.model import SVDKL

DRAWS = 200
ROWS_AT_ONCE = 4096

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

FIGURE_ROWS = 20_000  # rows that figures are made from, at most
INTERVAL = 0.95


def covering_levels(estimator: SVDKLRegressor, X: Any, values: Reals, mean: Reals, std: Reals) -> Reals:
    """The level of the narrowest central interval that holds each target, (rows, targets).

    In closed form for Gaussians. For other distributions by draws, whose quantiles have no closed form: an interval of
    level l holds y where F(y) >= (1 - l) / 2 and F(y-) <= (1 + l) / 2.
    """
    if estimator.likelihood == "gaussian":
        return special.erf(np.abs(values - mean) / std / np.sqrt(2))
    levels = np.empty_like(values)
    for start in range(0, len(values), ROWS_AT_ONCE):
        part = slice(start, min(len(values), start + ROWS_AT_ONCE))
        y = values[part, :, None]
        draws = estimator.sample_y(take_rows(X, part), DRAWS).reshape(*y.shape[:2], DRAWS)
        up_to, below = (draws <= y).mean(-1), (draws < y).mean(-1)
        levels[part] = np.maximum(np.maximum(1 - 2 * up_to, 2 * below - 1), 0)
    return levels


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


@dataclass(frozen=True)
class Doubt:
    """How sure the model is of some of the rows; all but ``total`` are None without Gaussian processes.

    For classes entropies in nats, (n,); for real targets standard deviations in their units, (n, targets).
    """

    rows: Ints  # which rows, increasing
    total: Reals
    epistemic: Reals | None
    ood_score: Reals | None  # (n,)
    usual_scores: Reals | None = None  # of training rows


@dataclass(frozen=True)
class ClassPredictions:
    """Class probabilities of all rows."""

    target: str
    classes: tuple[str, ...]
    labels: Ints  # (N,)
    probabilities: Reals  # (N, C)
    doubt: Doubt

    @property
    def chosen(self) -> Ints:
        """The most probable class of each row."""
        return self.probabilities.argmax(1)

    @property
    def correct(self) -> Any:
        """Whether it is the true one."""
        return self.chosen == self.labels


@dataclass(frozen=True)
class RealPredictions:
    """Means and deviations of all rows, each (N, targets), and the levels of the intervals that hold the truth."""

    targets: tuple[str, ...]
    values: Reals
    mean: Reals
    std: Reals
    levels: Reals
    doubt: Doubt


Predictions = ClassPredictions | RealPredictions


def predict(estimator: Any, X: Any, y: Any, run: dict[str, Any]) -> Predictions:
    """Ask the model about all rows, and how sure it is about those that figures show."""
    if not isinstance(estimator, SVDKLClassifier | SVDKLRegressor) or not hasattr(estimator, "model_"):
        raise ValueError(
            f"Expected a fitted SVDKLClassifier or SVDKLRegressor, got {type(estimator).__name__}: fit one first."
        )
    if isinstance(estimator, SVDKLClassifier):
        labels = class_numbers(estimator, y)
        _check_lengths(X, labels)
        probabilities = estimator.predict_proba(X)
        classes = tuple(str(name) for name in estimator.classes_.tolist())
        entropy = -(probabilities * np.log(np.maximum(probabilities, 1e-300))).sum(1)
        doubt = _class_doubt(estimator, X, entropy)
        return ClassPredictions(target_names(y, run, 1)[0], classes, labels, probabilities, doubt)
    values = real_values(estimator, y)
    _check_lengths(X, values)
    mean, std = (_columns(part) for part in estimator.predict(X, return_std=True))
    levels = covering_levels(estimator, X, values, mean, std)
    names = target_names(y, run, values.shape[1])
    return RealPredictions(names, values, mean, std, levels, _real_doubt(estimator, X, std))


def figure_rows(total: int) -> Ints:
    """The rows that figures show: all, or a random sample that is always the same."""
    if total <= FIGURE_ROWS:
        return np.arange(total)
    return np.sort(np.random.default_rng(0).choice(total, FIGURE_ROWS, replace=False))


def _class_doubt(estimator: SVDKLClassifier, X: Any, entropy: Reals) -> Doubt:
    rows = figure_rows(len(entropy))
    if not has_head(estimator):
        return Doubt(rows, entropy[rows], None, None)
    parts = estimator.predict_uncertainty(take_rows(X, rows))
    return Doubt(rows, entropy[rows], parts.epistemic, parts.ood_score, _usual_scores(estimator.model_))


def _real_doubt(estimator: SVDKLRegressor, X: Any, std: Reals) -> Doubt:
    rows = figure_rows(len(std))
    if not has_head(estimator):
        return Doubt(rows, std[rows], None, None)
    parts = estimator.predict_uncertainty(take_rows(X, rows))
    epistemic = np.sqrt(_columns(parts.epistemic))
    return Doubt(rows, std[rows], epistemic, parts.ood_score, _usual_scores(estimator.model_))


def _usual_scores(model: SVDKL) -> Reals:
    return model.gp_head.usual_scores().double().cpu().numpy()


def _columns(values: Reals) -> Reals:
    return values[:, None] if values.ndim == 1 else values


def _check_lengths(X: Any, y: Ints | Reals) -> None:
    if num_rows(X) != len(y):
        raise ValueError(
            f"Expected as many targets as rows, got {num_rows(X):,} rows and {len(y):,} targets: pass the "
            f"table and the targets of the same rows."
        )
