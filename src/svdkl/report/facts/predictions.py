"""What a model says of the test rows, beside the truth: all other facts are made from this."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from svdkl.errors import first_line
from svdkl.estimators.examples import Inputs
from svdkl.estimators.fitted import Fitted

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Figures and tables are made from so many rows, drawn at random: a page then takes seconds and holds no more.
FIGURE_ROWS = 20_000
INTERVAL = 0.95
DRAWS = 200  # of each row's target: the level of an interval is then known to about 0.03
ROWS_AT_ONCE = 4096  # whose draws are held at a time


@dataclass(frozen=True)
class Doubt:
    """How sure the model is of the rows in figures; without Gaussian processes all but ``total`` are None.

    For classes entropies in nats, (n,); for real targets standard deviations in their units, (n, targets).

    Attributes
    ----------
    rows
        Which rows these are, increasing.
    ood_score
        The out-of-distribution score of each row, (n,).
    usual_scores
        Out-of-distribution scores of training rows.
    """

    rows: Ints
    total: Reals
    epistemic: Reals | None
    ood_score: Reals | None
    usual_scores: Reals | None = None


@dataclass(frozen=True)
class ClassPredictions:
    """Class probabilities of all rows, (N, C), and the numbers of their true classes, (N,)."""

    target: str
    classes: tuple[str, ...]
    labels: Ints
    probabilities: Reals
    doubt: Doubt

    @property
    def chosen(self) -> Ints:
        """The most probable class of each row."""
        return self.probabilities.argmax(1)

    @property
    def correct(self) -> npt.NDArray[np.bool_]:
        """Whether the most probable class is the true one."""
        return self.chosen == self.labels


@dataclass(frozen=True)
class RealPredictions:
    """True values, means, deviations, and levels of the intervals that just hold the truth, each (N, targets)."""

    targets: tuple[str, ...]
    values: Reals
    mean: Reals
    std: Reals
    levels: Reals
    doubt: Doubt


Predictions = ClassPredictions | RealPredictions


def predict(fitted: Fitted, rows: Inputs, y: object, run: Mapping[str, object]) -> Predictions:
    """Ask the model about all rows, and how sure it is about the rows that figures show."""
    if fitted.classes is not None:
        labels = class_numbers(fitted, y)
        _check_lengths(rows, labels)
        p = fitted.probabilities(rows)
        names = tuple(str(name) for name in fitted.classes.labels.tolist())
        return ClassPredictions(_target_names(y, run, 1)[0], names, labels, p, _doubt(fitted, rows, entropy(p)))
    values = real_values(fitted, y)
    _check_lengths(rows, values)
    mean, std = (_columns(part) for part in fitted.moments(rows))
    levels = _covering_levels(fitted, rows, values, mean, std)
    names = _target_names(y, run, values.shape[1])
    return RealPredictions(names, values, mean, std, levels, _doubt(fitted, rows, std))


def class_numbers(fitted: Fitted, y: object) -> Ints:
    """Return the place of each label among the model's classes, (rows,)."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"Expected one label a row, got y of shape {labels.shape}: give one column.")
    assert fitted.classes is not None
    classes = fitted.classes.labels.tolist()
    places = {label: place for place, label in enumerate(classes)}
    try:
        return np.array([places[label] for label in labels.tolist()], dtype=np.int64)
    except (KeyError, TypeError) as error:
        known = ", ".join(map(repr, classes[:10]))
        raise ValueError(
            f"Expected labels out of the classes {known}, got {error}: leave out rows of other classes."
        ) from error


def real_values(fitted: Fitted, y: object) -> Reals:
    """Return the true targets as numbers, (rows, targets)."""
    try:
        values = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Expected numbers as targets, got others ({first_line(error)}): convert them.") from error
    shape, num_targets = values.shape, fitted.reals.num_outputs
    values = _columns(values)
    if values.ndim != 2 or values.shape[1] != num_targets:
        raise ValueError(f"Expected {num_targets} target(s) a row, got y of shape {shape}.")
    if not np.isfinite(values).all():
        raise ValueError("Expected finite targets, got NaN or infinity: leave out rows without a target.")
    return values


def figure_rows(total: int) -> Ints:
    """Choose the rows that figures show: all, or a random sample that is always the same."""
    if total <= FIGURE_ROWS:
        return np.arange(total)
    return np.sort(np.random.default_rng(0).choice(total, FIGURE_ROWS, replace=False))


def entropy(p: Reals) -> Reals:
    """Entropy of each row's class probabilities, in nats."""
    return -(p * np.log(np.maximum(p, 1e-300))).sum(1)


def _covering_levels(fitted: Fitted, rows: Inputs, values: Reals, mean: Reals, std: Reals) -> Reals:
    """Return the level of the narrowest central interval that holds each target, (rows, targets).

    These levels are all that coverage at any level needs to know. Gaussians have them in closed form. The quantiles of
    other distributions have none, so we draw: an interval of level l holds y where F(y) >= (1 - l) / 2 and
    F(y-) <= (1 + l) / 2.
    """
    if fitted.reals.likelihood == "gaussian":
        return special.erf(np.abs(values - mean) / std / np.sqrt(2))
    levels = np.empty_like(values)
    for start in range(0, len(values), ROWS_AT_ONCE):
        part = slice(start, min(len(values), start + ROWS_AT_ONCE))
        y, random = values[part, :, None], np.random.RandomState(0)
        seed = int(random.randint(2**31 - 1))
        draws = fitted.draws(rows.part(part.start, part.stop), DRAWS, seed, random).reshape(*y.shape[:2], DRAWS)
        up_to, below = (draws <= y).mean(-1), (draws < y).mean(-1)
        levels[part] = np.maximum(np.maximum(1 - 2 * up_to, 2 * below - 1), 0)
    return levels


def _target_names(y: object, run: Mapping[str, object], num_targets: int) -> tuple[str, ...]:
    """Return what the run or the table calls the targets, else "target"."""
    given = run.get("target")
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list | tuple):
        columns, name = getattr(y, "columns", None), getattr(y, "name", None)
        names = list(columns) if columns is not None else [name] if isinstance(name, str) and name else []
    if len(names) == num_targets:
        return tuple(str(name) for name in names)
    return ("target",) if num_targets == 1 else tuple(f"target {place + 1}" for place in range(num_targets))


def _doubt(fitted: Fitted, rows: Inputs, total: Reals) -> Doubt:
    chosen = figure_rows(len(total))
    if not fitted.options.has_gps:
        return Doubt(chosen, total[chosen], None, None)
    parts = fitted.uncertainty(rows.take(chosen))
    epistemic = parts.epistemic if fitted.classes is not None else np.sqrt(_columns(parts.epistemic))
    usual = fitted.model.gp_head.usual_scores().double().cpu().numpy()
    return Doubt(chosen, total[chosen], epistemic, parts.ood_score, usual)


def _columns(values: Reals) -> Reals:
    return values[:, None] if values.ndim == 1 else values


def _check_lengths(rows: Inputs, y: Ints | Reals) -> None:
    if rows.num_rows != len(y):
        raise ValueError(
            f"Expected as many targets as rows, got {rows.num_rows:,} rows and {len(y):,} targets: pass the "
            f"table and the targets of the same rows."
        )
