"""Any table, seen as named columns that are read one at a time."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from svdkl.tabular.frames import read_arrow, read_pandas, read_polars
from svdkl.tabular.values import Column, read_array


@dataclass(frozen=True)
class Table:
    """The columns of a table.

    Attributes
    ----------
    named
        Whether the names are the table's own. Arrays have none: their columns are called x0, x1, ...
    read
        Gives the column at a position; nothing is copied before that.
    """

    names: tuple[str, ...]
    num_rows: int
    named: bool
    read: Callable[[int], Column]


def open_table(X: Any) -> Table:
    """The columns of a numpy array, a pandas or polars DataFrame, a pyarrow Table, or nested sequences."""
    table = _open(X)
    if not table.names:
        raise ValueError(
            f"Expected a table with at least one column, got 0 feature(s) (shape=({table.num_rows}, 0)) while a "
            f"minimum of 1 is required."
        )
    twice = [name for name, count in Counter(table.names).items() if count > 1]
    if twice:
        raise ValueError(f"Expected a name of its own for each column, got {twice[0]!r} more than once: rename it.")
    return table


def _open(X: Any) -> Table:
    # A table of a library can only come from a program that has loaded the library.
    pandas, polars, pyarrow = (sys.modules.get(name) for name in ("pandas", "polars", "pyarrow"))
    if pandas is not None and isinstance(X, pandas.DataFrame):
        names = tuple(str(name) for name in X.columns)
        return Table(names, len(X), True, lambda i: read_pandas(names[i], X.iloc[:, i]))
    if polars is not None:
        if isinstance(X, polars.LazyFrame):
            raise TypeError("Expected a table in memory, got a polars LazyFrame: call its collect() first.")
        if isinstance(X, polars.DataFrame):
            columns = tuple(X.columns)
            return Table(columns, X.height, True, lambda i: read_polars(columns[i], X.to_series(i)))
    if pyarrow is not None:
        if isinstance(X, pyarrow.RecordBatch):
            X = pyarrow.Table.from_batches([X])
        if isinstance(X, pyarrow.Table):
            fields = tuple(X.column_names)
            return Table(fields, X.num_rows, True, lambda i: read_arrow(fields[i], X.column(i)))
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(X):
        raise TypeError("Expected a dense table, got a sparse matrix: convert it with X.toarray().")
    return _open_array(X)


def _open_array(X: Any) -> Table:
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise ValueError(
            f"Expected a table (numpy, pandas, polars, pyarrow), got a {type(X).__name__} whose rows differ in length: "
            f"give every row the same columns."
        ) from error
    if array.ndim != 2:
        raise ValueError(
            f"Expected a table of rows and columns, got a {type(X).__name__} of shape {array.shape}: Reshape your data "
            f"with X.reshape(-1, 1) if it is one column, or X.reshape(1, -1) if it is one row."
        )
    if array.dtype.kind == "U" and not isinstance(X, np.ndarray):
        array = np.asarray(X, dtype=object)  # numpy has made text of the numbers beside text
    names = tuple(f"x{i}" for i in range(array.shape[1]))
    return Table(names, array.shape[0], False, lambda i: read_array(names[i], array[:, i]))
