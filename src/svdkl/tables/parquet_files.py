"""Read a table from a Parquet file, or from all Parquet files of a folder."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from svdkl.errors import suggestion

PARQUET_SUFFIXES = (".parquet", ".pq")
READ_BYTES = 2**20  # read of a column at a time: without a limit, Arrow reads whole row groups ahead into memory


def tables_of(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """Cut record batches into tables of so many rows, the last one of fewer; memory holds about one of them."""
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
    """Refuse names that are empty or not unique."""
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
    """Return the names that are asked for, or all of them for None; refuse unknown names."""
    if columns is None:
        return list(names)
    for column in columns:
        if column not in names:
            raise ValueError(f"Expected a column of {path}, got {column!r}: {suggestion(column, names)}.")
    return list(columns)


def plain_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert categories to their values, and decimals to floats."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column


def values_of(table: pa.Table, name: str) -> npt.NDArray[Any]:
    """Return a column as an array."""
    values: npt.NDArray[Any] = plain_column(table.column(name)).to_numpy()
    return values


def refuse_missing(column: pa.ChunkedArray, target: str, start: int = 0) -> None:
    """Raise a ValueError if a target is missing in a part of a table that starts at this row."""
    missing = column.is_null(nan_is_null=True)
    if pc.any(missing).as_py():
        raise ValueError(
            f"Expected a target in all rows, got {pc.sum(missing).as_py():,} missing values of {target!r}, the first "
            f"in row {start + pc.index(missing, True).as_py() + 1:,}: drop these rows first."
        )


class Group(NamedTuple):
    """A row group: the smallest part of a Parquet file that can be read on its own."""

    file: Path
    index: int  # type: ignore[assignment]  # hides the tuple's method of that name
    rows: int


class ParquetFiles:
    """One table in one or many Parquet files.

    Parameters
    ----------
    path
        A file, or a folder. Files in the folder and its subfolders are read in the order of their names, except where
        a name starts with ``.`` or ``_``. All must have the same columns.

    Attributes
    ----------
    names, schema, num_rows
        Column names, column types and number of rows of the whole table.
    groups
        All row groups, in the order of the rows.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        files = self._files()
        fields = [field.with_nullable(True).remove_metadata() for field in _open(files[0]).schema_arrow]
        self.schema: pa.Schema = pa.schema(fields)
        self.names = tuple(self.schema.names)
        check_names(files[0], self.names)
        self.groups = tuple(group for file in files for group in self._groups(file))
        self.num_rows = sum(group.rows for group in self.groups)
        if self.num_rows == 0:
            raise ValueError(f"Expected a table with at least one row, got none in {self.path}: check what wrote it.")

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the table, or some of its columns in this order."""
        return pa.concat_tables([self.read_group(group, columns) for group in self.groups])

    def read_group(self, group: Group, columns: Sequence[str] | None = None) -> pa.Table:
        """Read one row group."""
        names = chosen_names(self.path, self.names, columns)
        try:
            table = _open(group.file).read_row_group(group.index, columns=names)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(group.file) from error
        return table.select(names).cast(self._schema_of(names))

    def blocks(self, group: Group, columns: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield one row group, however large, in parts of so many rows."""
        return map(pa.Table.from_batches, ([batch] for batch in self._stream(group.file, columns, rows, [group.index])))

    def batches(self, columns: Sequence[str] | None = None, rows: int = 65_536) -> Iterator[pa.Table]:
        """Yield the table in parts of so many rows; memory holds about one, however large the row groups are."""
        names = chosen_names(self.path, self.names, columns)
        files = dict.fromkeys(group.file for group in self.groups)
        batches = (batch for file in files for batch in self._stream(file, names, rows))
        return tables_of(batches, self._schema_of(names), rows)

    def _stream(
        self, file: Path, names: Sequence[str], rows: int, groups: list[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        names = list(names)
        try:
            for batch in _open(file).iter_batches(rows, row_groups=groups, columns=names):
                yield batch.select(names).cast(self._schema_of(names))
        except (pa.ArrowException, OSError) as error:
            raise _damaged(file) from error

    def _schema_of(self, names: Sequence[str]) -> pa.Schema:
        """Return one schema for all files: they may differ in whether a column can have missing values."""
        return pa.schema([self.schema.field(name) for name in names])

    def _files(self) -> list[Path]:
        if not self.path.is_dir():
            return [self.path]
        found = [file for file in self.path.rglob("*") if file.name.lower().endswith(PARQUET_SUFFIXES)]
        shown = [file for file in found if not any(part[0] in "._" for part in file.relative_to(self.path).parts)]
        if not shown:
            raise ValueError(
                f"Expected a folder of Parquet files, got {self.path}, which holds none: name a file, or another "
                f"folder."
            )
        return sorted(shown)

    def _groups(self, file: Path) -> list[Group]:
        opened = _open(file)
        self._check_same(file, opened.schema_arrow)
        metadata = opened.metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        return [Group(file, i, rows) for i, rows in enumerate(sizes) if rows]

    def _check_same(self, file: Path, schema: pa.Schema) -> None:
        ours = {field.name: field.type for field in self.schema}
        theirs = {field.name: field.type for field in schema}
        for name in [*ours, *theirs]:
            if ours.get(name) != theirs.get(name):
                here, there = theirs.get(name, "none"), ours.get(name, "none")
                raise ValueError(
                    f"Expected the same columns in all files of {self.path}, got {name!r} as {here} in {file.name} and "
                    f"as {there} in the first: write them with one schema."
                )


def _open(file: Path) -> pq.ParquetFile:
    try:
        if file.stat().st_size == 0:
            raise ValueError(f"Expected a Parquet file, got {file}, which is empty: write it once more.")
        return pq.ParquetFile(file, pre_buffer=False, buffer_size=READ_BYTES)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise OSError(f"Expected to read {file}, but that failed ({error.strerror}): check the path.") from error
        raise _damaged(file) from error


def _damaged(file: Path) -> ValueError:
    return ValueError(
        f"Expected a whole Parquet file, got {file}, which is cut off, damaged or something else: write or copy it "
        f"once more."
    )
