"""Convert a column to another storage where nothing is lost: text to numbers or times, numbers to text."""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from svdkl.tables.column import Array, Column, Storage, written

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?")


def as_numbers(column: Column) -> Column | None:
    """Convert a column to numbers; None if it holds anything else."""
    if column.storage in ("number", "boolean"):
        return column
    if column.is_empty:
        return Column(column.name, "number", np.zeros(len(column.values)), column.missing)
    if column.storage == "time":
        return None
    return _parsed(column, "number", _number, np.zeros(len(column.labels)))


def as_times(column: Column) -> Column | None:
    """Convert a column to times; None if it holds anything else. Text must be ISO 8601 without a time zone."""
    if column.storage == "time":
        return column
    if column.is_empty:
        return Column(column.name, "time", np.zeros(len(column.values), "datetime64[us]"), column.missing)
    if column.storage not in ("text", "category"):
        return None
    return _parsed(column, "time", _time, np.zeros(len(column.labels), "datetime64[us]"))


def as_booleans(column: Column) -> Column | None:
    """Convert a column to booleans; None if it holds anything but booleans, 0 and 1."""
    if column.storage == "boolean":
        return column
    if column.is_empty:
        return Column(column.name, "boolean", np.zeros(len(column.values), np.bool_), column.missing)
    if column.storage != "number":
        return None
    fits = (column.values == 0) | (column.values == 1)
    if column.missing is not None:
        fits |= column.missing
    return Column(column.name, "boolean", column.values == 1, column.missing) if bool(fits.all()) else None


def as_text(column: Column, labels: Sequence[str]) -> Column | None:
    """Convert a column to text; None if it holds anything else.

    Numbers and booleans become text if some of the labels look like numbers or booleans: in a part of a file, a column
    of text may hold only such labels.
    """
    if column.storage in ("text", "category"):
        return column
    if column.is_empty:
        return Column(column.name, "text", np.full(len(column.values), -1, np.int32), column.missing)
    if column.storage == "time" or not any(_is_like(label, column.storage) for label in labels):
        return None
    distinct, codes = np.unique(column.values, return_inverse=True)
    codes = codes.astype(np.int32)
    if column.missing is not None:
        codes[column.missing] = -1
    return Column(column.name, "text", codes, column.missing, tuple(written(value) for value in distinct))


def _parsed(column: Column, storage: Storage, read: Callable[[str], Any], values: Array) -> Column | None:
    """Convert a column by its labels; None if one of them cannot be read. Labels that no row has do not matter."""
    for place in np.flatnonzero(column.counts).tolist():
        value = read(column.labels[place])
        if value is None:
            return None
        values[place] = value
    # Missing values have the code -1, the last label: they may hold anything.
    return Column(column.name, storage, values[column.values], column.missing)


def _number(label: str) -> float | None:
    try:
        number = float(label)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in label else None


def _time(label: str) -> np.datetime64 | None:
    if not _DATE.fullmatch(label.strip()):
        return None
    try:
        return np.datetime64(label.strip(), "us")
    except ValueError:  # such as 2024-02-30
        return None


def _is_like(label: str, storage: Storage) -> bool:
    return label in ("True", "False") if storage == "boolean" else _number(label) is not None
