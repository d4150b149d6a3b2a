"""A table in a file, whose columns and targets are checked against those of a model."""

import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from svdkl.cli.output import listed, say
from svdkl.estimators.fitted import Fitted
from svdkl.estimators.targets import Classes
from svdkl.tables.column import written
from svdkl.tables.parquet_files import plain_column
from svdkl.tables.table_files import open_table_file

Array = npt.NDArray[Any]


class Rows(NamedTuple):
    """Some rows with targets."""

    X: Any
    y: Array  # the number of each row's class, or its real target
    beside: Any  # other columns of a table


class TableRows:
    """A table in a file with all columns that a model needs; it may also have the ``known`` columns, or any others."""

    def __init__(self, fitted: Fitted, path: Path, target: str, known: Collection[str], ignore_extra: bool) -> None:
        if fitted.columns.names is None:
            raise ValueError(
                "Expected a model that was fitted on a table with names, got one of nameless columns: use it from "
                "Python, or fit it on a table with names."
            )
        self.fitted, self.target, self.features = fitted, target, list(fitted.columns.names)
        self.file = open_table_file(path)
        lacking = [name for name in self.features if name not in self.file.names]
        if lacking:
            raise ValueError(
                f"Expected the columns that the model was fitted on, got {path} without {listed(lacking)}: add what is "
                f"missing, as empty columns if need be."
            )
        extra = [name for name in self.file.names if name not in {*self.features, *known}]
        if extra and not ignore_extra:
            raise ValueError(
                f"Expected only columns that the model knows, got {listed(extra)} in {path} too: leave them out with "
                f"--drop, or all such with --ignore-extra."
            )
        if extra:
            say(f"Ignored columns that the model does not know: {listed(extra)}.")

    def batches(self, beside: Sequence[str] = ()) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Go through the table part by part: the model's columns in its order, and some others."""
        wanted = [*self.features, *(name for name in dict.fromkeys(beside) if name not in self.features)]
        for table in self.file.batches(wanted):
            yield table.select(self.features), table.select(list(dict.fromkeys(beside)))

    def with_targets(self, by: str | None = None) -> Iterator[Rows]:
        """Go through the rows that have a target, with the column ``by``; a warning at the end counts the others."""
        target = self.target
        lacking = found = 0
        for X, beside in self.batches([target] if by is None else [target, by]):
            absent = beside.column(target).is_null(nan_is_null=True).to_numpy()
            lacking += int(absent.sum())
            if absent.all():
                continue
            rows = np.flatnonzero(~absent)
            found += len(rows)
            X, beside = X.take(rows), beside.take(rows)
            yield Rows(X, read_targets(self.fitted, target, plain_column(beside.column(target))), beside)
        if not found:
            raise ValueError(f"Expected rows with a value of {target!r}, got none: nothing can be compared with them.")
        if lacking:
            warnings.warn(f"Left out {lacking} row(s) without a value of {target!r}.", stacklevel=2)

    def whole(self) -> tuple[pa.Table, Array]:
        """Return all rows that have a target, and their labels or numbers."""
        parts = list(self.with_targets())
        y, classes = np.concatenate([part.y for part in parts]), self.fitted.classes
        return pa.concat_tables([part.X for part in parts]), y if classes is None else classes.labels[y]


def read_targets(fitted: Fitted, name: str, column: pa.ChunkedArray | pa.Array) -> Array:
    """Return the number of each row's class, or its real target."""
    return _real_numbers(name, column) if fitted.classes is None else _class_numbers(fitted.classes, column)


def _class_numbers(classes: Classes, column: pa.ChunkedArray | pa.Array) -> Array:
    """Return the place of each label among the classes; labels are the same if they are written the same."""
    places = {written(label): place for place, label in enumerate(classes.labels.tolist())}
    distinct = column.unique()
    labels = distinct.to_pylist()
    unknown = [label for label in labels if written(label) not in places]
    if unknown:
        raise ValueError(
            f"Expected targets out of the classes {', '.join(list(places)[:10])}, got {unknown[0]!r}: leave those rows "
            f"out, or train a model that knows it."
        )
    return np.array([places[written(label)] for label in labels])[pc.index_in(column, distinct).to_numpy()]


def _real_numbers(target: str, column: pa.ChunkedArray | pa.Array) -> Array:
    """Return targets as finite numbers, or refuse them."""
    try:
        numbers = column.cast(pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"Expected numbers in the target {target!r}, got {column.type}: convert it.") from error
    if not np.isfinite(numbers).all():
        raise ValueError(f"Expected finite numbers in the target {target!r}, got others: leave those rows out.")
    return numbers
