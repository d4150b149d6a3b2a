"""Encode a column of a table as columns of a float32 matrix."""

from typing import NoReturn

import numpy as np
import numpy.typing as npt

from svdkl.tables.column import Array, Column, Mask
from svdkl.tables.conversion import as_booleans, as_numbers, as_text, as_times
from svdkl.tables.numbers import compress, time_part
from svdkl.tables.schema import BooleanColumn, CategoryColumn, ColumnSchema, IgnoredColumn, NumberColumn, TimeColumn

Matrix = npt.NDArray[np.float32]

BLOCK = 65_536  # rows encoded at a time: half a megabyte of float64, which fits into a processor's cache


def encode_column(schema: ColumnSchema, column: Column, out: Matrix) -> None:
    """Encode a column into ``out`` (rows, number of encoded columns), each row on its own."""
    match schema:
        case NumberColumn():
            numbers = as_numbers(column) or _refuse(column, "numbers")
            if schema.varies:
                _write(out, 0, numbers.values, numbers.missing, schema.centre, schema.scale)
        case BooleanColumn():
            booleans = as_booleans(column) or _refuse(column, "booleans")
            if schema.varies:
                out[:, 0] = booleans.values
                if booleans.missing is not None:
                    out[booleans.missing, 0] = schema.usual
        case CategoryColumn():
            text = as_text(column, schema.labels) or _refuse(column, "text")
            codes = {label: code for code, label in enumerate(schema.labels, 1)}
            table = np.array([*(codes.get(label, 0) for label in text.labels), schema.missing_code], np.float32)
            out[:, 0] = table[text.values]
        case TimeColumn():
            times = as_times(column) or _refuse(column, "times")
            for i, part in enumerate(schema.parts):
                for start in range(0, len(out), BLOCK):
                    rows = slice(start, start + BLOCK)
                    values = time_part(times.values[rows], part.part)
                    absent = None if times.missing is None else times.missing[rows]
                    _write(out[rows], i, values, absent, part.centre, part.scale)
        case IgnoredColumn():
            pass
    if not isinstance(schema, CategoryColumn | IgnoredColumn) and schema.missing:
        out[:, -1] = 0 if column.missing is None else column.missing


def _write(out: Matrix, place: int, values: Array, missing: Mask | None, centre: float, scale: float) -> None:
    """Write scaled numbers; missing ones become 0, which is the median."""
    for start in range(0, len(out), BLOCK):
        rows = slice(start, start + BLOCK)
        out[rows, place] = compress(values[rows], centre, scale)
        if missing is not None:
            out[rows, place][missing[rows]] = 0


def _refuse(column: Column, kind: str) -> NoReturn:
    got = {"number": "numbers", "boolean": "booleans", "time": "times"}.get(column.storage, "text")
    if column.labels:
        got += f" such as {_unlike(column, kind)!r}"
    elif kind == "booleans" and column.storage == "number":
        got += " other than 0 and 1"
    raise ValueError(
        f"Expected {kind} in column {column.name!r}, as when it was fitted, got {got}: convert it, or fit again."
    )


def _unlike(column: Column, kind: str) -> str:
    """Return the first label of any row that cannot be read as that kind."""
    read = {"numbers": as_numbers, "times": as_times}.get(kind)
    labels = [column.labels[place] for place in np.flatnonzero(column.counts)]
    for label in labels:
        one = Column(column.name, column.storage, np.zeros(1, np.int32), None, (label,))
        if read is None or read(one) is None:
            return label
    return labels[0]
