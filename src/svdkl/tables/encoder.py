"""Encode tables as float32 matrices, each one in the way that was learned from one table."""

import warnings
from typing import Any

import numpy as np
import torch

from svdkl.shapes import Float, Tensor
from svdkl.tables.bins import Task, read_target
from svdkl.tables.column_encoder import encode_column
from svdkl.tables.column_learner import Limits, Sample, fit_column
from svdkl.tables.layout import Layout
from svdkl.tables.schema import IgnoredColumn, Schema
from svdkl.tables.table import Table, open_table

FORMAT = "svdkl tabular encoder, version 1"
SAMPLE = 100_000  # most rows that scales and bins are chosen from: enough for 64 bins, and quickly sorted
SMALLEST_SAMPLE = 10_000  # the sample of a table of very many columns: still some 150 rows for each of 64 bins
LEAST = {"max_onehot": 0, "max_categories": 1, "min_count": 1, "num_bins": 2, "seed": 0}  # values of the options
CELLS = 10_000_000  # values of a larger sample: more columns leave fewer rows, so that the time stays the same


class TabularEncoder:
    """Encode a table of numbers, booleans, text and times as one float32 matrix.

    Numbers are centred at the median and scaled by quantiles, with far tails compressed; categories become codes; times
    become numbers. :attr:`layout` describes each column of the matrix, for :class:`~svdkl.nets.tabular.TabularNet`.
    The encoding of a row does not depend on the other rows.

    Parameters
    ----------
    max_onehot
        A column of categories with at most this many codes is one-hot in the network, others are embedded.
    max_categories, min_count
        A category column keeps its most frequent values, those seen at least ``min_count`` times (in tables of fewer
        than 20 ``min_count`` rows, in one row of 20); the rest share the code of unknown values.
    num_bins
        The most bins of the piecewise-linear encoding of a number.
    seed
        The seed of the sample that scales and bins of large tables are chosen from.

    Examples
    --------
    >>> encoder = TabularEncoder().fit(X, y, task="classification")
    >>> x = encoder.transform(X)
    >>> again = TabularEncoder.from_json(encoder.to_json())
    >>> torch.equal(again.transform(X), x)
    True
    """

    def __init__(
        self, max_onehot: int = 32, max_categories: int = 1000, min_count: int = 10, num_bins: int = 64, seed: int = 0
    ) -> None:
        self.max_onehot = max_onehot
        self.max_categories = max_categories
        self.min_count = min_count
        self.num_bins = num_bins
        self.seed = seed
        for name, least in LEAST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"Expected {name} to be a whole number of at least {least}, got {value!r}.")
        self.schema_: Schema | None = None

    @property
    def schema(self) -> Schema:
        """The encoding of each column of the table."""
        if self.schema_ is None:
            raise ValueError("Expected a fitted encoder, got one that has seen no table yet: call fit first.")
        return self.schema_

    @property
    def layout(self) -> Layout:
        """The columns of the matrix."""
        return Layout(self.schema.features(self.max_onehot))

    def fit(self, X: Any, y: Any = None, task: Task | None = None) -> "TabularEncoder":
        """Learn the encoding of a table, which may be a :class:`~svdkl.tables.table.Table`.

        With targets, bins are chosen so that they tell the targets apart. Without a task, targets that are text,
        booleans or whole numbers of at most 50 values are classes.
        """
        if task not in (None, "classification", "regression"):
            raise ValueError(f"Expected a task out of classification, regression, None, got {task!r}.")
        table = open_table(X)
        if table.num_rows == 0:
            raise ValueError("Expected a table with at least one row, got none: check what filtered them out.")
        size = min(SAMPLE, max(SMALLEST_SAMPLE, CELLS // len(table.names)))
        if table.num_rows <= size:
            rows = np.arange(table.num_rows)
        else:
            rows = np.sort(np.random.default_rng(self.seed).choice(table.num_rows, size, replace=False, shuffle=False))
        sample = Sample(rows, None if y is None else read_target(y, table.num_rows, rows, task))
        limits = Limits(self.max_categories, self.min_count, self.num_bins)
        columns = tuple(fit_column(table.column(i), sample, limits) for i in range(len(table.names)))
        schema = Schema(columns, table.named)
        if not schema.features(self.max_onehot):
            raise ValueError(
                f"Expected at least one column that varies, got {table.num_rows} row(s) in which all columns are "
                f"constant or empty, such as {table.names[0]!r}: check how the table was read."
            )
        self.schema_ = schema
        return self

    def transform(self, X: Any) -> Float[Tensor, "B F"]:
        """Encode a table with the same columns; in any order, if they have names."""
        schema, table = self.schema, open_table(X)
        places = self._places(schema, table)
        widths = [column.width for column in schema.columns]
        ends = np.cumsum(widths).tolist()
        matrix = np.empty((table.num_rows, ends[-1]), np.float32)
        for column, place, width, end in zip(schema.columns, places, widths, ends):
            if width:
                encode_column(column, table.column(place), matrix[:, end - width : end])
        return torch.from_numpy(matrix)

    def to_json(self) -> dict[str, Any]:
        """Write options and schema as dictionaries, lists, texts, numbers and booleans."""
        options = {name: getattr(self, name) for name in LEAST}
        return {"format": FORMAT, "options": options, "schema": self.schema.to_json()}

    @classmethod
    def from_json(cls, data: Any) -> "TabularEncoder":
        """Read a fitted encoder that :meth:`to_json` has written."""
        if not isinstance(data, dict) or data.get("format") != FORMAT or set(data) != {"format", "options", "schema"}:
            raise ValueError(f"Expected the JSON of a fitted encoder ({FORMAT!r}), got something else.")
        options = data["options"]
        if not isinstance(options, dict) or set(options) != set(LEAST):
            raise ValueError(f"Expected the encoder's options {', '.join(LEAST)}, got {options!r}.")
        encoder = cls(**options)
        encoder.schema_ = Schema.from_json(data["schema"])
        return encoder

    def _places(self, schema: Schema, table: Table) -> list[int]:
        """Find each column of the schema in the table; 0 for ignored columns that are not there."""
        if not (schema.named and table.named):
            if len(table.names) != len(schema.columns):
                raise ValueError(
                    f"Expected as many columns as when it was fitted: X has {len(table.names)} features, but "
                    f"TabularEncoder is expecting {len(schema.columns)} features as input."
                )
            return list(range(len(table.names)))
        places = {name: i for i, name in enumerate(table.names)}
        needed = [column.name for column in schema.columns if not isinstance(column, IgnoredColumn)]
        absent = [name for name in needed if name not in places]
        if absent:
            raise ValueError(
                f"Expected the columns that the encoder was fitted on, got a table without {_listed(absent)}: add what "
                f"is missing, as empty columns if need be."
            )
        extra = [name for name in table.names if name not in {column.name for column in schema.columns}]
        if extra:
            warnings.warn(
                f"Expected only the columns that the encoder was fitted on, got {_listed(extra)} beside them: ignored.",
                stacklevel=3,
            )
        return [places.get(column.name, 0) for column in schema.columns]


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
