"""Columns of every kind of table: values, missing values, and what is refused."""

import datetime
import decimal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from listed import listed
from refusals import refused

from svdkl.tables.column import Column
from svdkl.tables.parquet_files import plain_column
from svdkl.tables.table import open_table

NAN = float("nan")
NOON = datetime.datetime(2024, 2, 29, 12, 30)
NEW_YEAR = datetime.datetime(1969, 1, 1)


def read(X: Any, place: int = 0) -> Column:
    return open_table(X).column(place)


def objects(values: list) -> np.ndarray:
    array = np.empty((len(values), 1), dtype=object)
    array[:, 0] = values
    return array


TABLES: dict[str, Callable[[list], Any]] = {
    "numpy": objects,
    "pandas": lambda values: pd.DataFrame({"a": values}),
    "pandas object": lambda values: pd.DataFrame({"a": pd.Series(values, dtype=object)}),
    "pandas arrow": lambda values: pd.DataFrame(
        {"a": pd.Series(pd.array(pa.array(values), dtype=arrow_dtype(values)))}
    ),
    "polars": lambda values: pl.DataFrame({"a": values}),
    "pyarrow": lambda values: pa.table({"a": values}),
    "record batch": lambda values: pa.RecordBatch.from_pydict({"a": values}),
    "chunks": lambda values: pa.table({"a": pa.chunked_array([pa.array(values)[:1], pa.array(values)[1:]])}),
}
each_table = pytest.mark.parametrize("kind", TABLES)


def arrow_dtype(values: list) -> pd.ArrowDtype:
    return pd.ArrowDtype(pa.array(values).type)


@each_table
@pytest.mark.parametrize(
    ("values", "storage"),
    [
        ([1, 2, 3], "number"),
        ([1, None, 3], "number"),
        ([1.5, None, -3.0], "number"),
        ([True, False, True], "boolean"),
        ([True, None, False], "boolean"),
        (["b", "a", "b"], "text"),
        (["b", None, "Größe"], "text"),
        ([NOON, NEW_YEAR], "time"),
        ([NOON, None, NEW_YEAR], "time"),
    ],
    ids=str,
)
def test_values_and_missing_values(kind: str, values: list, storage: str) -> None:
    column = read(TABLES[kind](values))
    assert column.storage == storage
    assert listed(column) == values
    assert (column.missing is None) == (None not in values)
    assert column.name == ("x0" if kind == "numpy" else "a")


@each_table
def test_a_column_of_nothing(kind: str) -> None:
    column = read(TABLES[kind]([None, None]))
    assert column.is_empty
    assert listed(column) == [None, None]


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "pandas arrow"])
def test_nan_and_null_are_both_missing(kind: str) -> None:
    assert listed(read(TABLES[kind]([1.0, NAN, None]))) == [1.0, None, None]


@each_table
def test_days_are_times(kind: str) -> None:
    assert listed(read(TABLES[kind]([datetime.date(2024, 1, 2), None]))) == [datetime.datetime(2024, 1, 2), None]


@each_table
def test_durations_and_times_of_day_are_seconds(kind: str) -> None:
    durations = read(TABLES[kind]([datetime.timedelta(days=1, milliseconds=500), None]))
    assert (durations.storage, listed(durations)) == ("number", [86400.5, None])
    of_day = read(TABLES[kind]([datetime.time(1, 2, 3, 500_000), None]))
    assert (of_day.storage, listed(of_day)) == ("number", [pytest.approx(3723.5), None])


@each_table
def test_decimals_are_numbers(kind: str) -> None:
    assert listed(read(TABLES[kind]([decimal.Decimal("1.25"), None]))) == [1.25, None]


def test_missing_values_of_pandas() -> None:
    assert listed(read(objects([1, pd.NA, pd.NaT, NAN, None]))) == [1, None, None, None, None]
    assert listed(read(objects(["a", pd.NA, NAN]))) == ["a", None, None]
    assert listed(read(pd.DataFrame({"a": pd.array([1, None], "Int64")}))) == [1, None]
    assert listed(read(pd.DataFrame({"a": pd.array([1.5, None], "Float64")}))) == [1.5, None]
    assert listed(read(pd.DataFrame({"a": pd.array([True, None], "boolean")}))) == [True, None]
    assert listed(read(pd.DataFrame({"a": pd.array(["x", None], "string")}))) == ["x", None]
    assert listed(read(pd.DataFrame({"a": pd.to_datetime([NOON, None])}))) == [NOON, None]
    assert listed(read(pd.DataFrame({"a": pd.arrays.SparseArray([0.0, NAN, 2.0])}))) == [0, None, 2]


DECLARED = {
    "pandas": lambda values: pd.DataFrame({"a": pd.Categorical(values)}),
    "polars": lambda values: pl.DataFrame({"a": pl.Series(values, dtype=pl.Categorical)}),
    "pyarrow": lambda values: pa.table({"a": pa.array(values).dictionary_encode()}),
}


@pytest.mark.parametrize("kind", DECLARED)
def test_declared_categories(kind: str) -> None:
    column = read(DECLARED[kind](["1", None, "0", "1"]))
    assert (column.storage, listed(column)) == ("category", ["1", None, "0", "1"])
    assert read(DECLARED[kind]([None, "a"]).head(0) if kind != "pyarrow" else DECLARED[kind](["a"])[:0]).is_empty


def test_declared_categories_of_decimals_are_numbers() -> None:
    column = pa.chunked_array([pa.array([decimal.Decimal("1.25"), None]).dictionary_encode()])
    assert plain_column(column).to_pylist() == [1.25, None]


def test_declared_categories_of_other_types_are_their_text() -> None:
    assert listed(read(pd.DataFrame({"a": pd.Categorical([2, 1, None])}))) == ["2", "1", None]
    assert listed(read(pd.DataFrame({"a": pd.Categorical([2.0, 0.5])}))) == ["2", "0.5"]
    assert listed(read(pd.DataFrame({"a": pd.cut([0.5, 1.5], [0, 1, 2])}))) == ["(0, 1]", "(1, 2]"]
    assert listed(read(pa.table({"a": pa.array([3, None]).dictionary_encode()}))) == ["3", None]
    assert listed(read(pl.DataFrame({"a": pl.Series(["x", None], dtype=pl.Enum(["y", "x"]))}))) == ["x", None]


def test_labels_that_are_missing_or_the_same_text() -> None:
    holes = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None]), pa.array([None, "a", "b"]))
    assert listed(read(pa.table({"a": holes}))) == [None, "a", "b", None]
    twice = read(pd.DataFrame({"a": pd.Categorical(["1", 1, "2", 1], categories=["2", "1", 1])}))
    assert listed(twice) == ["1", "1", "2", "1"]
    assert sorted(twice.labels) == ["1", "2"]


def test_dictionaries_that_differ_between_chunks() -> None:
    chunks = [pa.array(["b", "a"]).dictionary_encode(), pa.array(["c", None, "a"]).dictionary_encode()]
    assert listed(read(pa.table({"a": pa.chunked_array(chunks)}))) == ["b", "a", "c", None, "a"]


def test_numbers_beside_text_are_text() -> None:
    assert listed(read(objects([1, "a", 2.0, 2.5, True, None]))) == ["1", "a", "2", "2.5", "True", None]
    assert read(objects([1, True])).storage == "number"
    mixed = open_table([[1, "a"], [2.5, "b"]])
    assert [mixed.column(i).storage for i in range(2)] == ["number", "text"]


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_units_of_time(unit: str) -> None:
    expected = [NOON, None]
    stamps = np.array(["2024-02-29T12:30", "NaT"], f"datetime64[{unit}]")
    assert listed(read(stamps[:, None])) == expected
    assert listed(read(pa.table({"a": pa.array(stamps)}))) == expected
    assert listed(read(pd.DataFrame({"a": stamps}))) == expected
    seconds = np.array([1500, "NaT"], "timedelta64[s]").astype(f"timedelta64[{unit}]")
    assert listed(read(seconds[:, None])) == [1500, None]
    assert listed(read(pa.table({"a": pa.array(seconds)}))) == [1500, None]
    if unit != "s":
        assert listed(read(pl.DataFrame({"a": pl.Series(stamps)}))) == expected
        assert listed(read(pl.DataFrame({"a": pl.Series([1500], dtype=pl.Duration(unit))}))) == [
            pytest.approx(1500 / {"ns": 1e9, "us": 1e6, "ms": 1e3}[unit])
        ]


def test_times_keep_the_hour_of_their_own_clock() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=-5))
    aware = NOON.replace(tzinfo=zone)
    assert listed(read(objects([aware]))) == [NOON]
    stamps = pd.Series([NOON]).dt.tz_localize("America/New_York")
    assert listed(read(pd.DataFrame({"a": stamps}))) == [NOON]
    assert listed(read(pl.DataFrame({"a": [NOON]}).with_columns(pl.col("a").dt.replace_time_zone("Asia/Tokyo")))) == [
        NOON
    ]
    arrow = pa.array([NOON.replace(tzinfo=datetime.UTC)], pa.timestamp("us", "America/New_York"))
    assert listed(read(pa.table({"a": arrow}))) == [NOON - datetime.timedelta(hours=5)]


def test_numpy_types() -> None:
    for dtype in (np.int8, np.uint64, np.float16, np.float32, np.longdouble):
        values = np.array([[1], [2]], dtype)
        column = read(values)
        assert column.values.dtype == dtype
        assert np.shares_memory(column.values, values)  # nothing is copied
    assert listed(read(np.array([["a"], ["b"]]))) == ["a", "b"]
    assert listed(read(np.array([["a"], ["b"]], np.dtypes.StringDType()))) == ["a", "b"]
    assert read(np.array([[True], [False]])).storage == "boolean"


def test_numbers_of_one_chunk_are_not_copied() -> None:
    values = np.arange(5.0)
    assert np.shares_memory(read(pa.table({"a": values})).values, values)
    frame = pd.DataFrame({"a": values})
    assert np.shares_memory(read(frame).values, frame["a"].to_numpy())
    series = pl.Series("a", values)
    assert np.shares_memory(read(pl.DataFrame([series])).values, series.to_numpy())


def test_no_library_of_tables_is_imported() -> None:
    script = (
        "import sys, numpy\n"
        "from svdkl.tables.encoder import TabularEncoder\n"
        "x = numpy.array([[1, 'a', None], [2, 'b', 0.5]], dtype=object)\n"
        "TabularEncoder().fit(x).transform(x)\n"
        "assert not {'pandas', 'polars', 'pyarrow', 'sklearn'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


# ----------------------------------------------------------------------------------------------------------- refused


NESTED = {
    "list in an array": lambda: objects([[1], [2]]),
    "dict in an array": lambda: objects([{"foo": "bar"}, 1]),
    "array in an array": lambda: objects([np.zeros(2), 1.0]),
    "bytes": lambda: objects([b"a"]),
    "bytes of numpy": lambda: np.array([[b"a"]]),
    "polars list": lambda: pl.DataFrame({"a": [[1], [2]]}),
    "polars struct": lambda: pl.DataFrame({"a": [{"b": 1}]}),
    "arrow list": lambda: pa.table({"a": [[1], [2]]}),
    "arrow struct": lambda: pa.table({"a": [{"b": 1}]}),
    "arrow binary": lambda: pa.table({"a": [b"a"]}),
    "pandas list": lambda: pd.DataFrame({"a": [[1], [2]]}),
    "pandas interval": lambda: pd.DataFrame({"a": pd.interval_range(0, 2)}),
}


@pytest.mark.parametrize("kind", NESTED)
def test_nested_types(kind: str) -> None:
    refused(
        lambda: read(NESTED[kind]()), "numbers, booleans, text or times", "argument must be a string", error=TypeError
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.array([[1 + 2j]]),
        lambda: objects([1 + 2j]),
        lambda: pd.DataFrame({"a": [1 + 2j]}),
    ],
)
def test_complex_numbers(make: Callable[[], Any]) -> None:
    refused(lambda: read(make()), "real numbers", "Complex data not supported")


@each_table
@pytest.mark.parametrize("value", [float("inf"), -float("inf")])
def test_infinite_numbers(kind: str, value: float) -> None:
    refused(lambda: read(TABLES[kind]([1.0, NAN, value])), "finite numbers", "inf in row 2")


def test_whole_numbers_beyond_all_floats() -> None:
    refused(lambda: read(objects([10**400])), "finite numbers", "row 0")


def test_times_beside_other_values() -> None:
    refused(lambda: read(objects([NOON, 1])), "one kind", "'x0'", error=TypeError)


@pytest.mark.parametrize(
    ("make", "parts", "error"),
    [
        (lambda: np.zeros(3), ["rows and columns", "(3,)", "Reshape your data"], ValueError),
        (lambda: np.zeros((3, 2, 1)), ["rows and columns", "(3, 2, 1)"], ValueError),
        (lambda: None, ["rows and columns", "NoneType"], ValueError),
        (lambda: {"a": [1]}, ["rows and columns", "dict"], ValueError),
        (lambda: pd.Series([1, 2]), ["rows and columns", "Series"], ValueError),
        (lambda: [[1, 2], [3]], ["list", "differ in length"], ValueError),
        (lambda: np.zeros((3, 0)), ["at least one column", "0 feature(s) (shape=(3, 0)) while a minimum"], ValueError),
        (lambda: pd.DataFrame(index=range(2)), ["at least one column"], ValueError),
        (lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]), ["name of its own", "'a'"], ValueError),
        (lambda: pd.DataFrame([[1, 2]], columns=["1", 1]), ["name of its own", "'1'"], ValueError),
        (lambda: pa.Table.from_arrays([[1], [2]], ["a", "a"]), ["name of its own", "'a'"], ValueError),
        (lambda: pl.LazyFrame({"a": [1]}), ["LazyFrame", "collect()"], TypeError),
        (lambda: scipy.sparse.csr_matrix(np.eye(2)), ["dense", "sparse", "toarray"], TypeError),
    ],
)
def test_what_is_no_table(make: Callable[[], Any], parts: list[str], error: type[Exception]) -> None:
    refused(lambda: open_table(make()), *parts, error=error)
