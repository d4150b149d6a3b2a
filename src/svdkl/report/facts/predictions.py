"""What a model says of the test rows, beside the truth. All other facts are made from this."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from svdkl.estimators import SVDKLClassifier, SVDKLRegressor
from svdkl.estimators.inputs import num_rows, take_rows
from svdkl.model import SVDKL
from svdkl.report.facts.levels import covering_levels
from svdkl.report.facts.targets import Ints, Reals, class_numbers, real_values, target_names

FIGURE_ROWS = 20_000  # rows that figures are made from, at most
INTERVAL = 0.95


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
    if not isinstance(estimator.model_, SVDKL):
        return Doubt(rows, entropy[rows], None, None)
    parts = estimator.predict_uncertainty(take_rows(X, rows))
    return Doubt(rows, entropy[rows], parts.epistemic, parts.ood_score, _usual_scores(estimator.model_))


def _real_doubt(estimator: SVDKLRegressor, X: Any, std: Reals) -> Doubt:
    rows = figure_rows(len(std))
    if not isinstance(estimator.model_, SVDKL):
        return Doubt(rows, std[rows], None, None)
    parts = estimator.predict_uncertainty(take_rows(X, rows))
    epistemic = np.sqrt(_columns(parts.epistemic))
    return Doubt(rows, std[rows], epistemic, parts.ood_score, _usual_scores(estimator.model_))


def _usual_scores(model: SVDKL) -> Reals:
    return model.head.usual_scores().double().cpu().numpy()


def _columns(values: Reals) -> Reals:
    return values[:, None] if values.ndim == 1 else values


def _check_lengths(X: Any, y: Ints | Reals) -> None:
    if num_rows(X) != len(y):
        raise ValueError(
            f"Expected as many targets as rows, got {num_rows(X):,} rows and {len(y):,} targets: pass the "
            f"table and the targets of the same rows."
        )
