"""Tables as plain matrices, for rivals that take numbers only."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from svdkl.experiments.baselines.interface import Floats


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)


class CodedMatrix:
    """Numbers as they are and text as codes, in the order of the labels; NaN where missing or never seen in fitting."""

    def __init__(self, table: pa.Table) -> None:
        self.names = table.column_names
        self.labels: dict[str, pa.Array] = {}
        for name in self.names:
            if _is_text(table.column(name).type):
                texts = table.column(name).cast(pa.string())
                self.labels[name] = pa.array(sorted(texts.drop_null().unique().to_pylist()), pa.string())

    @property
    def text_columns(self) -> list[int]:
        """Places of the coded columns."""
        return [place for place, name in enumerate(self.names) if name in self.labels]

    def transform(self, table: pa.Table) -> Floats:
        """The matrix (rows, columns) of a table with the same columns."""
        columns = []
        for name in self.names:
            column = table.column(name)
            if name in self.labels:
                column = pc.index_in(column.cast(pa.string()), value_set=self.labels[name], skip_nulls=True)
            columns.append(column.cast(pa.float64()).to_numpy())  # nulls become NaN
        return np.stack(columns, axis=1)
