"""Whether the rows that a model doubts are those in which it errs."""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from svdkl.report.facts.predictions import ClassPredictions, Predictions
from svdkl.report.facts.targets import Reals

FEWEST_KEPT = 20  # rows that the end of a curve stands on,
FEWEST_IN_BIN = 10  # and a point of a binned one
BINS = 10
SAME_ORDER = 0.999  # rank correlation


@dataclass(frozen=True)
class Curve:
    """Points of a line, with what it stands for."""

    name: str
    x: Reals
    y: Reals


@dataclass(frozen=True)
class Binned:
    """Errors of the rows in bins of equal size, from the least doubtful to the most; each (bins,).

    ``low`` to ``high`` is a 95 % interval, ``expected`` the error that the model itself expects.
    """

    error: Reals
    low: Reals
    high: Reals
    expected: Reals


def errors(predictions: Predictions, target: int = 0) -> Reals:
    """Of the rows in the figures: 1 where the class is wrong, or the squared error of a target."""
    rows = predictions.doubt.rows
    if isinstance(predictions, ClassPredictions):
        return (~predictions.correct[rows]).astype(np.float64)
    return (predictions.values[rows, target] - predictions.mean[rows, target]) ** 2


def doubts(predictions: Predictions, target: int = 0) -> dict[str, Reals]:
    """What rows can be sorted by; only the total one where both would put them into the same order."""
    doubt = predictions.doubt
    total, epistemic = _of_target(doubt.total, target), doubt.epistemic
    if epistemic is None:
        return {"total": total}
    model = _of_target(epistemic, target)
    return {"total": total} if _same_order(total, model) else {"total": total, "epistemic": model}


def rejection(predictions: Predictions, target: int = 0) -> list[Curve]:
    """Accuracy or RMSE of the rows that are left when the most doubtful are set aside, and at best."""
    error = errors(predictions, target)
    by = {f"{name} uncertainty": values for name, values in doubts(predictions, target).items()}
    root = not isinstance(predictions, ClassPredictions)
    return [_rejected(name, error, values, root) for name, values in (by | {"best possible order": error}).items()]


def _rejected(name: str, error: Reals, doubt: Reals, root: bool) -> Curve:
    """Rows of equal doubt are taken in the order of the table."""
    sorted_error = error[np.argsort(doubt, kind="stable")]
    kept = np.unique(np.linspace(min(FEWEST_KEPT, len(error)), len(error), 101).round().astype(np.int64))[::-1]
    mean = np.cumsum(sorted_error)[kept - 1] / kept
    return Curve(name, 1 - kept / len(error), np.sqrt(mean) if root else 1 - mean)


def expected_errors(predictions: Predictions, target: int = 0) -> Reals:
    """What the model says :func:`errors` are on average."""
    if isinstance(predictions, ClassPredictions):
        return 1 - predictions.probabilities[predictions.doubt.rows].max(1)
    return predictions.doubt.total[:, target] ** 2


def binned(predictions: Predictions, doubt: Reals, target: int = 0) -> Binned:
    """Error rates, or root mean squared errors, by a doubt."""
    error, expected = errors(predictions, target), expected_errors(predictions, target)
    parts = np.array_split(np.argsort(doubt, kind="stable"), max(1, min(BINS, len(error) // FEWEST_IN_BIN)))
    sizes = np.array([len(part) for part in parts])
    mean, hoped = (np.array([values[part].mean() for part in parts]) for values in (error, expected))
    if isinstance(predictions, ClassPredictions):
        return Binned(mean, *_wilson(mean, sizes), hoped)
    spread = np.array([error[part].std() for part in parts]) / np.sqrt(sizes)
    low, high = (np.sqrt(np.maximum(mean + z * spread, 0)) for z in (-1.96, 1.96))
    return Binned(np.sqrt(mean), low, high, np.sqrt(hoped))


def _wilson(share: Reals, n: Reals | np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[Reals, Reals]:
    """The interval of a share that stays within 0 and 1 and has a width also at their ends."""
    z = 1.96
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return centre - half, centre + half


def _same_order(first: Reals, second: Reals) -> bool:
    """Whether two doubts sort the rows alike, but for what rounding does to rows that are equal."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return True
    return bool(stats.spearmanr(first, second).statistic > SAME_ORDER)


def _of_target(values: Reals, target: int) -> Reals:
    return values[:, target] if values.ndim == 2 else values
