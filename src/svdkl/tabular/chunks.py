"""Tables cut out of a stream of record batches, and what is checked of the names of their columns."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

import pyarrow as pa


def tables_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """Tables of so many rows each, the last one of fewer; little more than one is held at a time."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        while batch.num_rows:
            room = rows - sum(part.num_rows for part in held)
            held.append(batch.slice(0, room))
            batch = batch.slice(min(room, batch.num_rows))
            if sum(part.num_rows for part in held) == rows:
                yield pa.Table.from_batches(held, schema)
                held = []
    if held:
        yield pa.Table.from_batches(held, schema)


def check_names(path: Path, names: Sequence[str]) -> None:
    """Refuse names that are missing or not unique."""
    if "" in names:
        raise ValueError(
            f"Expected a name for each column of {path}, got none for column {names.index('') + 1}: name it, or write "
            f"the table without its index."
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(
            f"Expected a name of its own for each column of {path}, got {twice[0]!r} more than once: rename it."
        )


def chosen_names(path: Path, names: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """The columns that are asked for, all if none are; refused if they are not there."""
    if columns is None:
        return list(names)
    for column in columns:
        if column not in names:
            raise ValueError(f"Expected a column of {path}, got {column!r}: {suggestion(column, names)}.")
    return list(columns)


def suggestion(name: str, names: Sequence[str], most: int = 10) -> str:
    """What may have been meant by a name that is none of these."""
    lowered = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), lowered, 1)
    if near:
        return f"the nearest name is {lowered[near[0]]!r}"
    shown = ", ".join(map(repr, names[:most]))
    return f"there are {shown}" + (f" and {len(names) - most} more" if len(names) > most else "")


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Categories as their values, decimals as floats."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column
