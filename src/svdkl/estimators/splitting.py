"""Which rows are held out of the fit, for early stopping and the held-out evidence."""

import numpy as np
import numpy.typing as npt

from svdkl.estimators.given import Given
from svdkl.estimators.inputs import Index

FEWEST_HELD_OUT = 10  # rows: fewer tell nothing about when to stop


def split(given: Given, fraction: float, seed: int) -> tuple[Given, Given | None]:
    """What to fit, and what to hold out, if anything."""
    codes = given.y if given.y.ndim == 1 else np.zeros(len(given.y), np.int64)
    parts = held_out_rows(codes, fraction, seed)
    return (given, None) if parts is None else (given.take(parts[0]), given.take(parts[1]))


def held_out_rows(codes: npt.NDArray[np.int64], fraction: float, seed: int) -> tuple[Index, Index] | None:
    """Rows to fit and rows to hold out, about that fraction of each class; None if the table is too small.

    Every class keeps a row to fit.
    """
    num_rows = len(codes)
    if round(fraction * num_rows) < FEWEST_HELD_OUT:
        return None
    rng = np.random.default_rng(seed)
    order = rng.permutation(num_rows)
    order = order[np.argsort(codes[order], kind="stable")]
    # Every so many rows along the classes, from a random place on.
    passed = np.floor(np.arange(num_rows + 1) * fraction + rng.random())
    held = np.empty(num_rows, np.bool_)
    held[order] = np.diff(passed) > 0
    classes, first = np.unique(codes, return_index=True)
    lost = np.setdiff1d(classes, codes[~held])
    held[first[np.isin(classes, lost)]] = False
    return np.flatnonzero(~held), np.flatnonzero(held)
