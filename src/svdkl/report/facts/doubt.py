"""Whether the model errs in the rows that it doubts, and which single rows are worth a look."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from svdkl.report.facts.predictions import ClassPredictions, Ints, Predictions, RealPredictions, Reals
from svdkl.report.words import ABSENT
from svdkl.tables.column import Column
from svdkl.tables.table import Table

FEWEST_KEPT = 20  # rows that the end of a curve stands on: of fewer, one mistake would move it by more than a twentieth
FEWEST_IN_BIN = 10  # rows that a bin has, so that its error rate has an interval worth drawing
BINS = 10  # tenths are easy to read
SAME_ORDER = 0.999  # rank correlation from which two lines could not be told apart in a figure
MOST_ROWS = 10  # lines of a table that is read whole
MOST_COLUMNS = 12  # columns that fit beside the predictions on a wide page
SURE = 0.5  # a wrong class of a smaller probability was no sure mistake


@dataclass(frozen=True)
class Curve:
    """The points of a line in a figure, and its name."""

    name: str
    x: Reals
    y: Reals


@dataclass(frozen=True)
class Binned:
    """Errors of rows in bins of equal size, from the least doubtful to the most, (bins,).

    ``low`` to ``high`` is a 95 % interval, ``expected`` the error that the model itself expects.
    """

    error: Reals
    low: Reals
    high: Reals
    expected: Reals


def errors(predictions: Predictions, target: int = 0) -> Reals:
    """Return the errors of the rows in figures: 1 where the class is wrong, or the squared error of a target."""
    rows = predictions.doubt.rows
    if isinstance(predictions, ClassPredictions):
        return (~predictions.correct[rows]).astype(np.float64)
    return (predictions.values[rows, target] - predictions.mean[rows, target]) ** 2


def doubts(predictions: Predictions, target: int = 0) -> dict[str, Reals]:
    """Return the uncertainties that rows can be sorted by; the total one alone, where both give the same order."""
    doubt = predictions.doubt
    total, epistemic = _of_target(doubt.total, target), doubt.epistemic
    if epistemic is None:
        return {"total": total}
    model = _of_target(epistemic, target)
    alike = 0 in (np.ptp(total), np.ptp(model)) or stats.spearmanr(total, model).statistic > SAME_ORDER
    return {"total": total} if alike else {"total": total, "epistemic": model}


def rejection(predictions: Predictions, target: int = 0) -> list[Curve]:
    """Follow accuracy or RMSE of the other rows while the most doubtful are set aside, and in the best order."""
    error = errors(predictions, target)
    by = {f"{name} uncertainty": values for name, values in doubts(predictions, target).items()}
    root = not isinstance(predictions, ClassPredictions)
    return [_rejected(name, error, values, root) for name, values in (by | {"best possible order": error}).items()]


def _rejected(name: str, error: Reals, doubt: Reals, root: bool) -> Curve:
    """Set rows aside by falling doubt; rows of equal doubt go in the order of the table."""
    sorted_error = error[np.argsort(doubt, kind="stable")]
    kept = np.unique(np.linspace(min(FEWEST_KEPT, len(error)), len(error), 101).round().astype(np.int64))[::-1]
    mean = np.cumsum(sorted_error)[kept - 1] / kept
    return Curve(name, 1 - kept / len(error), np.sqrt(mean) if root else 1 - mean)


def binned(predictions: Predictions, doubt: Reals, target: int = 0) -> Binned:
    """Compute error rates, or root mean squared errors, in bins of a doubt."""
    error = errors(predictions, target)
    if isinstance(predictions, ClassPredictions):
        expected = 1 - predictions.probabilities[predictions.doubt.rows].max(1)
    else:
        expected = predictions.doubt.total[:, target] ** 2
    parts = np.array_split(np.argsort(doubt, kind="stable"), max(1, min(BINS, len(error) // FEWEST_IN_BIN)))
    sizes = np.array([len(part) for part in parts])
    mean, hoped = (np.array([values[part].mean() for part in parts]) for values in (error, expected))
    if isinstance(predictions, ClassPredictions):
        return Binned(mean, *_wilson(mean, sizes), hoped)
    spread = np.array([error[part].std() for part in parts]) / np.sqrt(sizes)
    low, high = (np.sqrt(np.maximum(mean + z * spread, 0)) for z in (-1.96, 1.96))
    return Binned(np.sqrt(mean), low, high, np.sqrt(hoped))


def _wilson(share: Reals, n: Reals | np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[Reals, Reals]:
    """Wilson's 95 % interval of a share: it stays within 0 and 1 and has a width also there."""
    z = 1.96
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return centre - half, centre + half


def _of_target(values: Reals, target: int) -> Reals:
    return values[:, target] if values.ndim == 2 else values


def most_doubtful(predictions: Predictions) -> Ints:
    """Find the rows of the largest total uncertainty; several targets are compared in units of their spread."""
    doubt = predictions.doubt
    total = doubt.total
    if not isinstance(predictions, ClassPredictions):
        spread = predictions.values.std(0)
        total = (total / np.where(spread > 0, spread, 1.0)).max(1)
    return doubt.rows[np.argsort(-total, kind="stable")[:MOST_ROWS]]


def surely_wrong(predictions: ClassPredictions) -> Ints:
    """Find the rows of a wrong class, by falling probability."""
    confidence = predictions.probabilities.max(1)
    wrong = np.flatnonzero(~predictions.correct & (confidence > SURE))
    return wrong[np.argsort(-confidence[wrong], kind="stable")[:MOST_ROWS]]


def most_surprising(predictions: RealPredictions) -> Ints:
    """Find the rows whose targets lie most predicted deviations away from the mean."""
    surprise = deviations_away(predictions).max(1)
    return np.argsort(-surprise, kind="stable")[:MOST_ROWS]


def deviations_away(predictions: RealPredictions) -> Reals:
    """Return |y - mean| / deviation of each row, (N, targets)."""
    return np.abs(predictions.values - predictions.mean) / predictions.std


def cells(table: Table, rows: Ints) -> list[list[str]]:
    """Return the values of some rows in the first columns of a table, as text."""
    table = table.take(rows)
    columns = []
    for place in range(min(len(table.names), MOST_COLUMNS)):
        column = table.column(place)
        missing = np.zeros(len(rows), np.bool_) if column.missing is None else column.missing
        columns.append([ABSENT if absent else _text(column, x) for x, absent in zip(column.values.tolist(), missing)])
    return [list(row) for row in zip(*columns, strict=True)]


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
