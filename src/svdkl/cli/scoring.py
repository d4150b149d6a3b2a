"""Predictions of the rows of a file: as tables to write, or scored by their targets."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from svdkl.cli.image_rows import ImageRows
from svdkl.cli.table_rows import Array, TableRows
from svdkl.estimators.fitted import Fitted
from svdkl.metrics import METRICS, evaluate_classification, evaluate_regression

UNCERTAINTY = ("total", "aleatoric", "epistemic", "ood_score")
DIRECTIONS = {True: "higher is better", False: "lower is better", None: "best at 0.95"}
MOST_SLICES = 100
MISSING = "(missing)"


class Scores(NamedTuple):
    """Metrics of some rows by their names."""

    rows: int
    metrics: dict[str, float]

    @property
    def described(self) -> dict[str, dict[str, Any]]:
        """Each metric with its unit and direction."""
        return {
            name: {"value": value, "unit": METRICS[name].unit, "direction": DIRECTIONS[METRICS[name].higher_is_better]}
            for name, value in self.metrics.items()
        }


def score(rows: TableRows | ImageRows, by: str | None) -> tuple[Scores, dict[str, Scores]]:
    """Return the metrics of all rows that have a target, and of the rows of each value of the column ``by``.

    The file is read part by part.
    """
    predictions, targets, values = [], [], []
    for X, y, beside in rows.with_targets(by):
        predictions.append(_predicted(rows.fitted, X))
        targets.append(y)
        if by is not None:
            values += beside.column(by).to_pylist()
    p, y = np.concatenate(predictions), np.concatenate(targets)
    slices = {} if by is None else _slices(by, values)
    return _scores(rows.fitted, p, y), {value: _scores(rows.fitted, p[i], y[i]) for value, i in slices.items()}


def _predicted(fitted: Fitted, X: Any) -> Array:
    """Return probabilities (rows, classes), or mean and standard deviation (rows, 2)."""
    if fitted.classes is not None:
        return fitted.probabilities(X)
    _refuse_several(fitted)
    return np.stack(fitted.moments(X), 1)


def _scores(fitted: Fitted, p: Array, y: Array) -> Scores:
    by_class = fitted.classes is not None
    return Scores(len(y), evaluate_classification(p, y) if by_class else evaluate_regression(p[:, 0], p[:, 1], y))


def _slices(by: str, values: list[Any]) -> dict[str, Array]:
    """Return the rows of each value."""
    texts = np.array([MISSING if value is None else str(value) for value in values], object)
    distinct = sorted(set(texts.tolist()))
    if len(distinct) > MOST_SLICES:
        raise ValueError(
            f"Expected --by a column of at most {MOST_SLICES} values, got {len(distinct)} in {by!r}: group them first."
        )
    return {value: np.flatnonzero(texts == value) for value in distinct}


def tables_of_predictions(
    rows: TableRows | ImageRows, copied: list[str], uncertainty: bool, levels: list[float]
) -> Iterator[pa.Table]:
    """Predict the rows of a file part by part; tables start with copied columns and end with the uncertainty."""
    for X, beside in rows.batches(copied):
        predicted = _columns(rows.fitted, X, np.array(levels))
        if uncertainty:
            parts = rows.fitted.uncertainty(X)
            predicted |= {name: getattr(parts, name) for name in UNCERTAINTY}
        twice = [name for name in copied if name in predicted]
        if twice:
            raise ValueError(f"Expected copied columns with other names than the predictions, got {twice[0]!r}.")
        yield pa.table({**{name: beside.column(name) for name in copied}, **predicted})


def _columns(fitted: Fitted, X: Any, levels: Array) -> dict[str, Array]:
    if fitted.classes is not None:
        p, labels = fitted.probabilities(X), fitted.classes.labels
        return {"label": labels[p.argmax(1)], **{f"p_{label}": p[:, i] for i, label in enumerate(labels.tolist())}}
    _refuse_several(fitted)
    mean, std = fitted.moments(X)
    quantiles = fitted.quantiles(X, levels) if len(levels) else np.empty((len(mean), 0))
    return {"mean": mean, "std": std, **{f"q{level:g}": quantiles[:, i] for i, level in enumerate(levels)}}


def _refuse_several(fitted: Fitted) -> None:
    if not fitted.reals.single:
        raise ValueError(f"Expected a model of one target, got one of {fitted.reals.num_outputs}: use it from Python.")
