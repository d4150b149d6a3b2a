"""Single rows worth a look: those that the model doubts most, and those in which it was sure and wrong."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from svdkl.estimators.inputs import take_rows
from svdkl.report.facts.predictions import ClassPredictions, RealPredictions
from svdkl.report.facts.targets import Ints, Reals
from svdkl.report.words import ABSENT
from svdkl.tabular.columns import open_table
from svdkl.tabular.values import Column

MOST_ROWS = 10
MOST_COLUMNS = 12
SURE = 0.5  # a wrong prediction with less than that is not called sure


@dataclass(frozen=True)
class Cells:
    """The values of some rows in the first columns of a table, as text."""

    names: list[str]
    rows: list[list[str]]
    left_out: int  # columns


def most_doubtful(predictions: ClassPredictions | RealPredictions) -> Ints:
    """Rows of the largest total uncertainty, of all targets together in units of their spread."""
    doubt = predictions.doubt
    total = doubt.total if isinstance(predictions, ClassPredictions) else _relative(doubt.total, predictions)
    return doubt.rows[np.argsort(-total, kind="stable")[:MOST_ROWS]]


def surely_wrong(predictions: ClassPredictions) -> Ints:
    """Rows of a wrong class, by falling probability."""
    confidence = predictions.probabilities.max(1)
    wrong = np.flatnonzero(~predictions.correct & (confidence > SURE))
    return wrong[np.argsort(-confidence[wrong], kind="stable")[:MOST_ROWS]]


def most_surprising(predictions: RealPredictions) -> Ints:
    """Rows whose targets lie most predicted deviations away from the mean."""
    surprise = deviations_away(predictions).max(1)
    return np.argsort(-surprise, kind="stable")[:MOST_ROWS]


def deviations_away(predictions: RealPredictions) -> Reals:
    """|y - mean| / deviation, (N, targets)."""
    return np.abs(predictions.values - predictions.mean) / predictions.std


def cells(X: Any, rows: Ints) -> Cells | None:
    """What the table holds in some rows; None for rows that are no list of columns, such as images."""
    if len(X.shape) != 2:
        return None
    table = open_table(take_rows(X, rows))
    shown = range(min(len(table.names), MOST_COLUMNS))
    columns = [_texts(table.read(place)) for place in shown]
    return Cells(
        [table.names[place] for place in shown],
        [list(row) for row in zip(*columns, strict=True)],
        len(table.names) - len(shown),
    )


def _texts(column: Column) -> list[str]:
    missing = np.zeros(len(column.values), np.bool_) if column.missing is None else column.missing
    return [ABSENT if absent else _text(column, value) for value, absent in zip(column.values.tolist(), missing)]


def _text(column: Column, value: Any) -> str:
    match column.storage:
        case "text" | "category":
            return column.labels[value]
        case "number":
            return f"{value:.6g}"
        case "boolean":
            return "yes" if value else "no"
        case "time":
            return str(value).removesuffix(" 00:00:00")


def _relative(std: Reals, predictions: RealPredictions) -> Reals:
    spread = predictions.values.std(0)
    return (std / np.where(spread > 0, spread, 1.0)).max(1)
