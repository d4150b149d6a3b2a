"""A table is opened once, each column is converted once, and views are rows of what was converted."""

import datetime
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from listed import listed
from refusals import refused

from svdkl.estimators.examples import Examples
from svdkl.tables.encoder import TabularEncoder
from svdkl.tables.frames import Frame
from svdkl.tables.table import open_table

DAY = datetime.datetime(2024, 2, 29, 12, 30)
COLUMNS = {
    "whole": [3, 1, None, 2, 3, 1, 5, 8],
    "real": [0.5, None, 2.5, -1.0, 0.5, 0.25, 3.0, 7.0],
    "word": ["b", None, "a", "b", "c", "only once", "a", "b"],
    "kind": ["x", "y", "y", None, "x", "x", "z", "y"],
    "flag": [True, False, None, True, True, False, True, True],
    "day": [DAY + datetime.timedelta(days=i) if i != 4 else None for i in range(8)],
}
ROWS = [[6, 6, 0, 4], [5], [2, 1, 4, 3], [], list(range(8))]  # [2, 1, 4, 3] holds all missing values


def arrow(rows: list[int] | None = None) -> pa.Table:
    columns = {name: pa.array(values) for name, values in COLUMNS.items()}
    table = pa.table({**columns, "kind": columns["kind"].dictionary_encode()})
    return table if rows is None else table.take(pa.array(rows, pa.int64()))


def cells(rows: list[int] | None = None) -> np.ndarray:
    array = np.empty((8, len(COLUMNS)), dtype=object)
    array[:] = list(zip(*COLUMNS.values(), strict=True))
    return array if rows is None else array[np.array(rows, np.int64)]


# Each kind of table, with some rows of the columns above or with all of them.
TABLES: dict[str, Callable[[list[int] | None], Any]] = {
    "numpy": cells,
    "numbers": lambda rows: np.array([[0.5, 1], [np.nan, 2], [2, 3]] * 3)[:8][slice(None) if rows is None else rows],
    "lists": lambda rows: cells(rows).tolist(),
    "pandas": lambda rows: arrow(rows).to_pandas(),
    "pandas, other labels of rows": lambda rows: arrow(rows).to_pandas().set_axis(range(10, 10 + len(arrow(rows)))),
    "pandas, nullable": lambda rows: arrow(rows).to_pandas().convert_dtypes(),
    "pandas, arrow": lambda rows: arrow(rows).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda rows: pl.from_arrow(arrow(rows)),
    "pyarrow": arrow,
    "chunks": lambda rows: pa.concat_tables([arrow(rows)[:1], arrow(rows)[1:]]),
    "record batch": lambda rows: arrow(rows).combine_chunks().to_batches()[0],
}
each_table = pytest.mark.parametrize("kind", TABLES)


def index(*rows: int) -> np.ndarray:
    return np.array(rows, np.int64)


def values(table: Any) -> list[list]:
    assert all(len(table.column(place).values) == table.num_rows for place in range(len(table.names)))
    return [listed(table.column(place)) for place in range(len(table.names))]


def of_rows(whole: list[list], rows: Any) -> list[list]:
    return [[column[row] for row in rows] for column in whole]


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> Counter:
    """How many rows of each column were converted, by its name."""
    counted: Counter = Counter()
    read = Frame.read

    def count(frame: Frame, place: int) -> Any:
        counted[frame.names[place]] += frame.num_rows
        return read(frame, place)

    monkeypatch.setattr(Frame, "read", count)
    return counted


@each_table
@pytest.mark.parametrize("rows", ROWS[:3] + ROWS[4:], ids=str)
def test_a_view_is_like_a_table_of_its_rows(kind: str, rows: list[int]) -> None:
    whole, own = open_table(TABLES[kind](None)), open_table(TABLES[kind](rows))
    view = whole.take(index(*rows))
    assert (view.names, view.num_rows, view.named) == (whole.names, len(rows), whole.named)
    assert values(view) == values(own) == of_rows(values(whole), rows)


@each_table
def test_a_part_is_like_a_table_of_its_rows(kind: str) -> None:
    whole = open_table(TABLES[kind](None))
    for start, stop in ((0, 8), (2, 6), (3, 3), (5, 100)):
        part = whole.part(start, stop)
        assert (part.names, part.named) == (whole.names, whole.named)
        assert values(part) == of_rows(values(whole), range(8)[start:stop])
    assert values(whole.part(1, 7).part(2, 5)) == of_rows(values(whole), range(3, 6))


@each_table
def test_views_of_views(kind: str) -> None:
    whole = open_table(TABLES[kind](None))
    view = whole.take(index(7, 3, 2, 2, 5)).take(index(4, 1, 1, 3))
    assert values(view) == of_rows(values(whole), (5, 3, 3, 2))
    assert values(view.part(1, 4)) == of_rows(values(whole), (3, 3, 2))
    assert values(whole.part(2, 8).take(index(5, 0))) == of_rows(values(whole), (7, 2))


@each_table
def test_rows_that_are_cut_out_are_converted_on_their_own(kind: str, conversions: Counter) -> None:
    whole = open_table(TABLES[kind](None))
    cut = whole.cut(index(7, 3, 3))
    assert values(cut) == values(open_table(TABLES[kind]([7, 3, 3])))
    assert set(conversions.values()) == {6}  # three rows of either table
    assert values(whole.take(index(5, 4, 1)).cut(index(2, 0))) == of_rows(values(whole), (1, 5))


def test_values_of_rows_that_were_cut_off_do_not_matter() -> None:
    table = open_table([[np.inf, "word"], [1.0, 2], [3.0, 4]]).cut(index(1, 2))
    assert [table.column(place).storage for place in range(2)] == ["number", "number"]


@pytest.mark.parametrize("rows", [[], [2]])
def test_views_with_few_rows_may_be_empty(rows: list[int]) -> None:
    view = open_table(arrow()).take(index(*rows))
    assert view.column(0).is_empty
    assert values(view)[0] == [None] * len(rows)


def test_an_open_table_is_not_opened_again() -> None:
    table = open_table(arrow())
    assert open_table(table) is table
    view = table.take(index(1, 2))
    assert open_table(view) is view


@each_table
def test_each_column_is_converted_once(kind: str, conversions: Counter) -> None:
    table = open_table(TABLES[kind](None))
    assert not conversions
    view = table.take(index(7, 0, 1, 3, 4, 6))
    fit, held = view.take(index(0, 1, 2, 3)), view.take(index(4, 5)).part(0, 1)
    for rows in (fit, held, table, view):
        values(rows)
    encoder = TabularEncoder().fit(fit, np.arange(4.0))
    for rows in (fit, held, table):
        assert len(encoder.transform(rows)) == rows.num_rows
    assert conversions == dict.fromkeys(table.names, 8)


@each_table
def test_a_part_converts_its_own_rows_only(kind: str, conversions: Counter) -> None:
    table = open_table(TABLES[kind](None))
    for start in (0, 3):
        table.part(start, start + 3).column(0)
    assert conversions == {table.names[0]: 6}


def test_only_the_columns_of_the_whole_table_are_kept() -> None:
    table = open_table(arrow())
    view = table.take(index(0, 1))
    assert table.column(0) is table.column(0)
    assert view.column(0) is not view.column(0)


def test_a_part_of_an_array_is_no_copy() -> None:
    array = np.arange(12.0).reshape(6, 2)
    assert np.shares_memory(open_table(array).part(2, 4).column(1).values, array)


# ------------------------------------------------------------------------------------- labels that occur in no row


def test_labels_that_no_row_has_change_nothing_that_is_learned() -> None:
    words = ["b", "a", "a", "b", "word", "2", "7", "2", "2024-01-01", "2023-05-06"]
    frame = pd.DataFrame({"text": words, "kind": pd.Categorical(words), "beside": np.arange(10.0)})
    for rows in ([0, 1, 2, 3], [3, 2, 1, 0, 4], [5, 6, 7], [8, 9], [1, 2]):
        view, own = open_table(frame).take(index(*rows)), frame.iloc[rows]
        fitted, expected = TabularEncoder(min_count=1).fit(view), TabularEncoder(min_count=1).fit(own)
        assert fitted.to_json() == expected.to_json()
        assert fitted.transform(view).equal(expected.transform(own))
        ordered = (Examples(table, np.zeros(len(rows))).in_order_of_content().X for table in (view, open_table(own)))
        first, second = (table.column(2).values.tolist() for table in ordered)
        assert first == second


def test_an_error_names_a_label_of_the_rows() -> None:
    frame = pd.DataFrame({"a": ["no number", "1", "2", "neither"], "b": [0, 1, 2, 3]})
    table = open_table(frame)
    encoder = TabularEncoder().fit(table.take(index(1, 2)))
    refused(lambda: encoder.transform(table.take(index(1, 3, 0))), "text such as 'no number'")
    refused(lambda: encoder.transform(table.take(index(1, 3))), "text such as 'neither'")
