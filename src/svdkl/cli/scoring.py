"""Predictions beside the targets of a file, and their metrics: of all rows, and of each value of a column."""

from typing import Any, NamedTuple

import numpy as np

from svdkl.cli.data import Array, MatchedFile, rows_with_targets

MOST_SLICES = 100
MISSING = "(missing)"


class Predicted(NamedTuple):
    """Rows with a target."""

    by_class: bool
    predictions: Array  # probabilities (rows, classes), or mean and standard deviation (rows, 2)
    targets: Array
    slices: dict[str, Array]  # the rows of each value


class Scores(NamedTuple):
    """Metrics of some rows by their names."""

    rows: int
    metrics: dict[str, float]


def predict_beside_targets(estimator: Any, file: MatchedFile, target: str, by: str | None) -> Predicted:
    """Predictions of all rows that have a target; the file is read part by part."""
    predictions, targets, values = [], [], []
    by_class = hasattr(estimator, "classes_")
    for X, y, beside in rows_with_targets(estimator, file, target, by):
        predictions.append(estimator.predict_proba(X) if by_class else np.stack(estimator.predict(X, True), 1))
        targets.append(y)
        if by is not None:
            values += beside.column(by).to_pylist()
    slices = {} if by is None else _slices(by, values)
    return Predicted(by_class, np.concatenate(predictions), np.concatenate(targets), slices)


def scores(predicted: Predicted) -> tuple[Scores, dict[str, Scores]]:
    """Metrics of all rows, and of each slice."""
    return _scores(predicted, slice(None)), {
        value: _scores(predicted, rows) for value, rows in predicted.slices.items()
    }


def _scores(predicted: Predicted, rows: Any) -> Scores:
    from svdkl.metrics import evaluate_classification, evaluate_regression

    p, y = predicted.predictions[rows], predicted.targets[rows]
    metrics = evaluate_classification(p, y) if predicted.by_class else evaluate_regression(p[:, 0], p[:, 1], y)
    return Scores(len(y), metrics)


def _slices(by: str, values: list[Any]) -> dict[str, Array]:
    texts = np.array([MISSING if value is None else str(value) for value in values], object)
    distinct = sorted(set(texts.tolist()))
    if len(distinct) > MOST_SLICES:
        raise ValueError(
            f"Expected --by a column of at most {MOST_SLICES} values, got {len(distinct)} in {by!r}: group them first."
        )
    return {value: np.flatnonzero(texts == value) for value in distinct}
