"""Read the columns of numpy, pandas, polars and pyarrow tables.

A library is never imported here unless the table is its own.
"""

import sys
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from svdkl.tables.column import Array, Column, Storage, read_array, read_numbers, read_text, some, unreadable, written

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Frame:
    """A table of one library, as it was given. The columns of arrays are called x0, x1, ..."""

    library: Literal["numpy", "pandas", "polars", "pyarrow"]
    table: Any
    names: tuple[str, ...]

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return int(self.table.shape[0])

    def read(self, place: int) -> Column:
        """Convert the column at a place."""
        name = self.names[place]
        match self.library:
            case "numpy":
                return read_array(name, self.table[:, place])
            case "pandas":
                return read_pandas(name, self.table.iloc[:, place])
            case "polars":
                return read_polars(name, self.table.to_series(place))
            case "pyarrow":
                return read_arrow(name, self.table.column(place))

    def cut(self, rows: Array | slice) -> "Frame":
        """Cut out these rows; a slice copies nothing."""
        if self.library == "pyarrow" and not isinstance(rows, slice):
            return replace(self, table=self.table.take(rows))
        return replace(self, table=self.table.iloc[rows] if self.library == "pandas" else self.table[rows])


def open_frame(X: Any) -> Frame:
    """Recognise the library of a table, and read the names of its columns."""
    # A table of a library can only come from a program that has loaded the library.
    pandas, polars, pyarrow = (sys.modules.get(name) for name in ("pandas", "polars", "pyarrow"))
    if pandas is not None and isinstance(X, pandas.DataFrame):
        return Frame("pandas", X, tuple(str(name) for name in X.columns))
    if polars is not None:
        if isinstance(X, polars.LazyFrame):
            raise TypeError("Expected a table in memory, got a polars LazyFrame: call its collect() first.")
        if isinstance(X, polars.DataFrame):
            return Frame("polars", X, tuple(X.columns))
    if pyarrow is not None:
        if isinstance(X, pyarrow.RecordBatch):
            X = pyarrow.Table.from_batches([X])
        if isinstance(X, pyarrow.Table):
            return Frame("pyarrow", X, tuple(X.column_names))
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(X):
        raise TypeError("Expected a dense table, got a sparse matrix: convert it with X.toarray().")
    array = _read_cells(X)
    return Frame("numpy", array, tuple(f"x{i}" for i in range(array.shape[1])))


def _read_cells(X: Any) -> Array:
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
    return array


def read_pandas(name: str, series: Any) -> Column:
    """Read a column of a pandas DataFrame."""
    pandas, dtype = sys.modules["pandas"], series.dtype
    if isinstance(dtype, np.dtype | pandas.SparseDtype):
        return read_array(name, series.to_numpy())
    if isinstance(dtype, pandas.CategoricalDtype):
        return _with_labels(name, series.cat.codes.to_numpy(), series.cat.categories.tolist(), "category")
    if isinstance(dtype, pandas.StringDtype):
        codes, labels = pandas.factorize(series, use_na_sentinel=True)
        return _with_labels(name, codes, labels.tolist(), "text")
    if isinstance(dtype, pandas.ArrowDtype):
        pyarrow = sys.modules["pyarrow"]
        array = pyarrow.array(series.array)
        return read_arrow(name, array if isinstance(array, pyarrow.ChunkedArray) else pyarrow.chunked_array([array]))
    if isinstance(dtype, pandas.DatetimeTZDtype):
        return read_array(name, series.dt.tz_localize(None).to_numpy())
    if isinstance(dtype, pandas.PeriodDtype):
        return read_array(name, series.dt.to_timestamp().to_numpy())
    missing = some(series.isna().to_numpy())
    if pandas.api.types.is_bool_dtype(dtype):
        return Column(name, "boolean", series.to_numpy(np.bool_, na_value=False), missing)
    if pandas.api.types.is_numeric_dtype(dtype):
        return read_numbers(name, series.to_numpy(dtype.numpy_dtype, na_value=0), missing)
    raise unreadable(name, str(dtype))


def read_polars(name: str, series: Any) -> Column:
    """Read a column of a polars DataFrame."""
    polars, dtype = sys.modules["polars"], series.dtype
    missing = series.is_null().to_numpy() if series.null_count() else None
    if dtype == polars.Null:
        return Column(name, "number", np.zeros(len(series)), np.ones(len(series), np.bool_))
    if dtype == polars.Boolean:
        return Column(name, "boolean", series.fill_null(False).to_numpy(), missing)
    if dtype.is_numeric():
        # Decimals and integers of 128 bits have no numpy type.
        plain = dtype.is_float() or (dtype.is_integer() and dtype not in (polars.Int128, polars.UInt128))
        numbers = series if plain else series.cast(polars.Float64)
        return read_numbers(name, (numbers if missing is None else numbers.fill_null(0)).to_numpy(), missing)
    if dtype == polars.String or dtype in (polars.Categorical, polars.Enum):
        text = series.cast(polars.String)
        labels = text.drop_nulls().unique(maintain_order=True)
        places = polars.Series(range(len(labels)), dtype=polars.Int32)
        codes = text.replace_strict(labels, places, default=None, return_dtype=polars.Int32).fill_null(-1)
        return _with_labels(name, codes.to_numpy(), labels.to_list(), "text" if dtype == polars.String else "category")
    if dtype in (polars.Datetime, polars.Date):
        if dtype == polars.Datetime:
            series = series.dt.replace_time_zone(None)
        return read_array(name, series.cast(polars.Datetime("us")).to_numpy())
    if dtype == polars.Duration:
        unit = SECONDS[dtype.time_unit]
        return read_numbers(name, series.to_physical().fill_null(0).to_numpy() * unit, missing)
    if dtype == polars.Time:
        return read_numbers(name, series.to_physical().fill_null(0).to_numpy() * SECONDS["ns"], missing)
    raise unreadable(name, str(dtype))


def read_arrow(name: str, chunks: Any) -> Column:
    """Read a column of a pyarrow Table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = chunks.type
    missing = chunks.is_null().to_numpy() if chunks.null_count else None
    if pa.types.is_null(kind):
        return Column(name, "number", np.zeros(len(chunks)), np.ones(len(chunks), np.bool_))
    if pa.types.is_boolean(kind):
        return Column(name, "boolean", pc.fill_null(chunks, False).to_numpy(), missing)
    if pa.types.is_decimal(kind):
        chunks, kind = chunks.cast(pa.float64()), pa.float64()
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        filled = chunks if missing is None else pc.if_else(pc.is_null(chunks), pa.scalar(0, kind), chunks)
        return read_numbers(name, filled.to_numpy(), missing)
    if pa.types.is_timestamp(kind):
        local = chunks if kind.tz is None else pc.local_timestamp(chunks)
        return read_array(name, local.cast(pa.timestamp("us"), safe=False).to_numpy())
    if pa.types.is_date(kind):
        return read_array(name, chunks.cast(pa.timestamp("us")).to_numpy())
    if pa.types.is_duration(kind) or pa.types.is_time(kind):
        whole = chunks.cast(pa.int32()).cast(pa.int64()) if pa.types.is_time32(kind) else chunks.cast(pa.int64())
        return read_numbers(name, pc.fill_null(whole, 0).to_numpy() * SECONDS[kind.unit], missing)
    if pa.types.is_dictionary(kind):
        return _read_dictionary(name, chunks, "category")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _read_dictionary(name, chunks.cast(pa.large_string()).dictionary_encode(), "text")
    raise unreadable(name, str(kind))


def _read_dictionary(name: str, chunks: Any, storage: Storage) -> Column:
    import pyarrow as pa
    import pyarrow.compute as pc

    array = chunks.unify_dictionaries().combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # there were no chunks
        return read_text(name, [], None, storage)
    codes = pc.fill_null(array.indices.cast(pa.int64()), -1).to_numpy()
    return _with_labels(name, codes, array.dictionary.to_pylist(), storage)


def _with_labels(name: str, codes: Array, labels: list[Any], storage: Storage) -> Column:
    """Read a column from positions in a list of labels; they are below zero where values are missing."""
    # Labels may be missing themselves, and two of them the same text, such as 1 and 1.0.
    places: dict[str, int] = {}
    missing = [label is None or label != label for label in labels]
    positions = [
        -1 if absent else places.setdefault(written(label), len(places)) for label, absent in zip(labels, missing)
    ]
    values = np.array([*positions, -1], np.int32)[codes]  # a code below zero takes the last position
    return Column(name, storage, values, some(values < 0), tuple(places))
