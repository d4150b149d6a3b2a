"""A column of a table: its values as a numpy array, and which of them are missing."""

import datetime
import decimal
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Index = npt.NDArray[np.int64]
Storage = Literal["number", "boolean", "text", "category", "time"]


@dataclass(frozen=True)
class Column:
    """The values of a column, and which of them are missing.

    Attributes
    ----------
    storage
        How the values are stored; "category" is text that the table itself declares to be categories.
    values
        Numbers of any real type, booleans, or datetime64[us]: at a missing value they hold anything. For text and
        categories, positions in ``labels``, -1 at a missing value.
    missing
        True at a missing value; None if no value is missing.
    labels
        The distinct values of text. Some may occur in no row.
    """

    name: str
    storage: Storage
    values: Array
    missing: Mask | None = None
    labels: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether all values are missing; the storage then tells nothing."""
        return len(self.values) == 0 or (self.missing is not None and bool(self.missing.all()))

    @cached_property
    def counts(self) -> Array:
        """The number of rows that have each label."""
        return np.bincount(self.values + 1, minlength=len(self.labels) + 1)[1:]

    def take(self, rows: Index) -> "Column":
        """Return these rows, in this order. The labels stay what they are, so some may occur in no row."""
        missing = None if self.missing is None else some(self.missing[rows])
        return replace(self, values=self.values[rows], missing=missing)


def read_array(name: str, values: Array) -> Column:
    """Read a column from a numpy array of one dimension, whatever its type."""
    match values.dtype.kind:
        case "i" | "u" | "f":
            return read_numbers(name, values)
        case "b":
            return Column(name, "boolean", values)
        case "M":
            return Column(name, "time", values.astype("datetime64[us]"), some(np.isnat(values)))
        case "m":
            return read_numbers(name, values / np.timedelta64(1, "s"))
        case "U":
            return read_text(name, values.tolist(), None)
        case "O" | "T":
            return _read_objects(name, values.astype(object))
        case "c":
            raise complex_numbers(name)
        case _:
            raise unreadable(name, str(values.dtype))


def read_numbers(name: str, values: Array, missing: Mask | None = None) -> Column:
    """Read a column of numbers; NaN is a missing value, and so is every value that the mask marks."""
    finite = np.isfinite(values) if values.dtype.kind == "f" else np.ones(1, np.bool_)
    if bool(finite.all()):
        return Column(name, "number", values, missing)
    absent = np.isnan(values) if missing is None else np.isnan(values) | missing
    infinite = ~(finite | absent)
    if bool(infinite.any()):
        row = int(infinite.argmax())
        raise ValueError(
            f"Expected finite numbers in column {name!r}, got {values[row]} in row {row}: replace it, or make it "
            f"missing (NaN)."
        )
    return Column(name, "number", values, absent)


def read_text(name: str, values: Iterable[str], missing: Mask | None, storage: Storage = "text") -> Column:
    """Read a column of text; the text of a missing value means nothing."""
    places: dict[str, int] = {}
    codes = np.fromiter((places.setdefault(value, len(places)) for value in values), np.int32)
    if missing is not None:
        codes[missing] = -1
    return Column(name, storage, codes, missing, tuple(places))


def written(value: Any) -> str:
    """Write a value as text, whole numbers without a point: 2 and 2.0 are one category."""
    if isinstance(value, float | np.floating | decimal.Decimal) and value == value // 1:
        return str(int(value))
    return str(float(value)) if isinstance(value, float | np.floating) else str(value)


def some(missing: Mask) -> Mask | None:
    """Return the mask, or None if it is nowhere true."""
    return missing if bool(missing.any()) else None


def complex_numbers(name: str) -> ValueError:
    """Make the error for a column of complex numbers."""
    return ValueError(
        f"Expected real numbers in column {name!r}, got complex ones: give real and imaginary parts as two columns. "
        f"Complex data not supported."
    )


def unreadable(name: str, what: str) -> TypeError:
    """Make the error for a column of nested or other values that are not numbers, booleans, text or times."""
    return TypeError(
        f"Expected numbers, booleans, text or times in column {name!r}, got {what}: each argument must be a string or "
        f"a number, so expand or drop the column."
    )


_KINDS: tuple[tuple[Storage, tuple[type, ...]], ...] = (
    ("boolean", (bool, np.bool_)),
    ("time", (datetime.date, np.datetime64)),
    ("number", (Real, decimal.Decimal, datetime.timedelta, datetime.time, np.timedelta64)),
    ("text", (str,)),
)


def _read_objects(name: str, values: Array) -> Column:
    """Read a column of Python objects, which may be of several types."""
    blanks = _blank_types()
    items = values.tolist()
    for kind in set(map(type, items)) - blanks:
        _kind_of(name, kind)
    missing = np.fromiter((type(item) in blanks or item != item for item in items), np.bool_, len(items))
    present = [item for item, absent in zip(items, missing) if not absent]
    kinds = {_kind_of(name, kind) for kind in set(map(type, present))}
    mask = some(missing)
    if kinds == {"time"}:
        times = np.full(len(items), "NaT", "datetime64[us]")
        times[~missing] = np.array([_naive(item) for item in present], "datetime64[us]")
        return Column(name, "time", times, mask)
    if kinds == {"boolean"}:
        booleans = np.zeros(len(items), np.bool_)
        booleans[~missing] = present
        return Column(name, "boolean", booleans, mask)
    if "time" in kinds:
        raise TypeError(
            f"Expected values of one kind in column {name!r}, got times beside other values: convert them to one type."
        )
    if "text" in kinds:  # numbers beside text can only be text
        return read_text(name, ("" if absent else written(item) for item, absent in zip(items, missing)), mask)
    numbers = np.zeros(len(items))
    numbers[~missing] = [_number(item) for item in present]
    return read_numbers(name, numbers, mask)


def _blank_types() -> set[type]:
    """Return the types whose values are all missing: None's, and two of pandas where it is loaded."""
    pandas = sys.modules.get("pandas")
    return {type(None)} if pandas is None else {type(None), type(pandas.NA), type(pandas.NaT)}


def _kind_of(name: str, kind: type) -> Storage:
    if issubclass(kind, complex | np.complexfloating):
        raise complex_numbers(name)
    for storage, types in _KINDS:
        if issubclass(kind, types):
            return storage
    raise unreadable(name, f"values of type {kind.__name__}")


def _naive(item: Any) -> Any:
    """Drop the time zone of a time, which keeps the hour that its own clock showed."""
    return item.replace(tzinfo=None) if isinstance(item, datetime.datetime) else item


def _number(item: Any) -> float:
    if isinstance(item, datetime.timedelta):
        return item.total_seconds()
    if isinstance(item, np.timedelta64):
        return float(item / np.timedelta64(1, "s"))
    if isinstance(item, datetime.time):
        return item.hour * 3600 + item.minute * 60 + item.second + item.microsecond / 1e6
    try:
        return float(item)
    except OverflowError:  # a whole number beyond the largest float
        return float("inf")
