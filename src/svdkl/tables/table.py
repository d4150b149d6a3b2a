"""A table of any library, opened once: each of its columns is converted once."""

from collections import Counter
from typing import Any

from svdkl.tables.column import Column, Index
from svdkl.tables.frames import Frame, open_frame


class Table:
    """All rows of a frame, or some of them; a column is converted when it is first asked for, and kept.

    Attributes
    ----------
    names, num_rows
        The names of the columns, and the number of rows.
    named
        Whether the names are the table's own. The columns of arrays are called x0, x1, ...
    """

    def __init__(self, frame: Frame, converted: dict[int, Column] | None = None, rows: Index | None = None) -> None:
        self._frame, self._rows = frame, rows
        self._converted: dict[int, Column] = {} if converted is None else converted
        self.names, self.named = frame.names, frame.library != "numpy"
        self.num_rows = frame.num_rows if rows is None else len(rows)

    def column(self, place: int) -> Column:
        """Return the column at a place."""
        if place not in self._converted:
            self._converted[place] = self._frame.read(place)
        column = self._converted[place]
        return column if self._rows is None else column.take(self._rows)

    def take(self, rows: Index) -> "Table":
        """Return a view of these rows, in this order; it shares the converted columns and keeps none of its own."""
        return Table(self._frame, self._converted, rows if self._rows is None else self._rows[rows])

    def part(self, start: int, stop: int) -> "Table":
        """Return the rows from ``start`` to before ``stop``, which are converted on their own unless in a view."""
        if self._rows is None:
            return Table(self._frame.cut(slice(start, stop)))
        return Table(self._frame, self._converted, self._rows[start:stop])

    def cut(self, rows: Index) -> "Table":
        """Return these rows, converted on their own: no value of another row can change a type or be refused."""
        return Table(self._frame.cut(rows if self._rows is None else self._rows[rows]))


def open_table(X: Any) -> Table:
    """Open a numpy array, a pandas or polars DataFrame, a pyarrow Table or nested sequences; a Table stays itself."""
    if isinstance(X, Table):
        return X
    frame = open_frame(X)
    if not frame.names:
        raise ValueError(
            f"Expected a table with at least one column, got 0 feature(s) (shape=({frame.num_rows}, 0)) while a "
            f"minimum of 1 is required."
        )
    twice = [name for name, count in Counter(frame.names).items() if count > 1]
    if twice:
        raise ValueError(f"Expected a name of its own for each column, got {twice[0]!r} more than once: rename it.")
    return Table(frame)
