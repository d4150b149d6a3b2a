"""The columns of the table as the model understands them, and how those of the test rows differ."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from svdkl.tabular.columns import Table, open_table
from svdkl.tabular.encoder import TabularEncoder
from svdkl.tabular.schema import CategoryColumn, ColumnSchema, IgnoredColumn
from svdkl.tabular.words import encoding_in_words


@dataclass(frozen=True)
class ColumnFacts:
    """One column: its kind, how it is encoded, and the shares of test rows without a value or with a strange one."""

    name: str
    kind: str
    encoding: str
    missing: float  # share of test rows
    missing_known: bool  # whether training rows had missing values too
    unknown: float  # share of test rows whose category is rare or new; 0 for other kinds


def describe_columns(encoder: TabularEncoder, X: Any) -> list[ColumnFacts]:
    """All columns in the order of the schema; X holds the rows of the figures."""
    table = open_table(X)
    places = _places(encoder, table)
    return [
        _describe(column, table, place, encoder.max_onehot) for column, place in zip(encoder.schema.columns, places)
    ]


def _places(encoder: TabularEncoder, table: Table) -> list[int | None]:
    columns = encoder.schema.columns
    if not (encoder.schema.named and table.named):
        return list(range(len(columns)))
    places = {name: place for place, name in enumerate(table.names)}
    return [places.get(column.name) for column in columns]


def _describe(column: ColumnSchema, table: Table, place: int | None, max_onehot: int) -> ColumnFacts:
    encoding = encoding_in_words(column, max_onehot)
    if isinstance(column, IgnoredColumn) or place is None:
        return ColumnFacts(column.name, column.kind, encoding, 0.0, True, 0.0)
    given = table.read(place)
    missing = 0.0 if given.missing is None else float(given.missing.mean())
    unknown = 0.0
    if isinstance(column, CategoryColumn) and given.labels:
        known = np.array([*(name in set(column.labels) for name in given.labels), True])
        unknown = float((~known[given.values]).mean())
    return ColumnFacts(column.name, column.kind, encoding, missing, column.missing, unknown)
