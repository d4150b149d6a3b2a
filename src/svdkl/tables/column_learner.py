"""Learn how a column is encoded: its kind, scale, bins and categories."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from svdkl.tables.bins import Target, choose_edges, choose_levels
from svdkl.tables.column import Array, Column
from svdkl.tables.conversion import as_numbers, as_times
from svdkl.tables.numbers import PARTS, compress, robust_scale, time_part
from svdkl.tables.schema import (
    BooleanColumn,
    CategoryColumn,
    ColumnSchema,
    IgnoredColumn,
    NumberColumn,
    TimeColumn,
    TimePart,
)

ENOUGH = 1000  # fewest numbers in a sample that set the scale: with fewer, all rows set it
ROWS_A_COUNT = 20  # in small tables, a category needs only one row in this many
STILL = 1e-9  # a sine or cosine that varies less than this is constant: the rest is rounding


@dataclass(frozen=True)
class Sample:
    """Rows that scales and bins are chosen from, and their targets."""

    rows: npt.NDArray[np.int64]
    target: Target | None


@dataclass(frozen=True)
class Limits:
    """The options of an encoder that limit categories and bins."""

    max_categories: int
    min_count: int
    num_bins: int


def fit_column(column: Column, sample: Sample, limits: Limits) -> ColumnSchema:
    """Learn the schema of one column."""
    if column.is_empty:
        return IgnoredColumn(column.name, "empty")
    if column.storage == "text":
        column = as_numbers(column) or as_times(column) or column
    if column.storage in ("text", "category"):
        return _fit_category(column, limits)
    missing = column.missing is not None
    present = column.values if column.missing is None else column.values[~column.missing]
    low, high = present.min(), present.max()
    varies = bool(low < high)
    if not varies and not missing:
        return IgnoredColumn(column.name, "constant")
    if column.storage == "boolean":
        usual = int(np.count_nonzero(present)) * 2 > len(present)
        return BooleanColumn(column.name, varies, usual, missing)
    if column.storage == "time":
        return TimeColumn(column.name, _fit_parts(column, present, sample, limits) if varies else (), missing)
    if not varies:
        return NumberColumn(column.name, False, float(low), 1.0, (), (), missing)
    return NumberColumn(column.name, True, *_fit_numbers(column.values, column.missing, sample, limits), missing)


def _fit_category(column: Column, limits: Limits) -> ColumnSchema:
    needed = min(limits.min_count, max(1, len(column.values) // ROWS_A_COUNT))
    often = [(-int(count), label) for label, count in zip(column.labels, column.counts) if count >= needed]
    labels = tuple(label for _, label in sorted(often)[: limits.max_categories])
    missing = column.missing is not None
    if not missing:
        if np.count_nonzero(column.counts) == 1:
            return IgnoredColumn(column.name, "constant")
        if not labels:
            return IgnoredColumn(column.name, "no value often enough")
    return CategoryColumn(column.name, labels, missing)


def _fit_parts(column: Column, present: Array, sample: Sample, limits: Limits) -> tuple[TimePart, ...]:
    parts = []
    for part in PARTS:
        values = time_part(present, part)
        if values.max() - values.min() <= STILL:
            continue
        every = values if column.missing is None else time_part(column.values, part)
        parts.append(TimePart(part, *_fit_numbers(every, column.missing, sample, limits, scaled=part != "elapsed")))
    return tuple(parts)


def _fit_numbers(
    values: Array, missing: Array | None, sample: Sample, limits: Limits, scaled: bool = False
) -> tuple[float, float, tuple[float, ...], tuple[float, ...]]:
    """Learn centre, scale, edges and levels; numbers that are scaled already have centre 0 and scale 1."""
    held = np.ones(len(sample.rows), np.bool_) if missing is None else ~missing[sample.rows]
    numbers = values[sample.rows[held]].astype(np.float64)
    centre, scale = 0.0, 1.0
    if not scaled:
        some = numbers
        if len(numbers) < ENOUGH or bool((numbers == numbers[0]).all()):
            some = (values if missing is None else values[~missing]).astype(np.float64)
        centre, scale = robust_scale(np.sort(some))
    target = sample.target
    if target is not None:
        target = Target(target.values[held], target.by_class)
    z = compress(numbers, centre, scale)
    return centre, scale, choose_edges(z, target, limits.num_bins), choose_levels(z, limits.min_count)
