"""Read a table from a CSV file: one pass finds the types of its columns, another one reads their values."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from svdkl.tables.parquet_files import check_names, chosen_names, tables_of

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
SHOWN = 60  # characters of a line in a message, so that it fits on a screen

CSV_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
BLOCK = 4 * 2**20  # bytes parsed at a time: no line may be longer than a block
# The narrowest type comes first: a column gets the first one that all of its values fit.
KINDS = (pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))
BOOLEANS = pa.array(["true", "True", "TRUE", "false", "False", "FALSE", "1", "0"])
TRIMMED = (pa.int64(), pa.float64(), pa.date32())  # the reader skips blanks around their values


def explain(path: Path, delimiter: str, error: Exception) -> ValueError | OSError:
    """Find what is wrong with a file that could not be read, and in which line, by reading it again, slowly."""
    if isinstance(error, PermissionError | FileNotFoundError | IsADirectoryError):
        return OSError(f"Expected to read {path}, but that failed ({error.strerror}): check the path.")
    try:
        found = _foreign_encoding(path) or _uneven_row(path, delimiter)
    except (EOFError, OSError, zlib.error):
        return ValueError(f"Expected a whole gzip file, got {path}, which is cut off or damaged: get it once more.")
    reason = " ".join(str(error).split()).rstrip(".")
    return found or ValueError(f"Expected a whole CSV file, got {path}, which cannot be read ({reason}).")


def looks_like_numbers(names: Sequence[str]) -> bool:
    """Return whether a line that should hold names holds only numbers."""
    try:
        return bool([float(name) for name in names])
    except ValueError:
        return False


def _foreign_encoding(path: Path) -> ValueError | None:
    with _bytes(path) as file:
        for number, line in enumerate(file, 1):
            if number == 1 and line.startswith(UTF_16):
                return ValueError(f"Expected UTF-8 text in {path}, got UTF-16: save it as UTF-8.")
            try:
                line.decode()
            except UnicodeDecodeError as error:
                byte = line[error.start : error.start + 1]
                return ValueError(
                    f"Expected UTF-8 text in {path}, got the byte 0x{byte.hex().upper()} in line {number}, which reads "
                    f"{byte.decode('cp1252', 'replace')!r} in Windows-1252: save it as UTF-8."
                )
    return None


def _uneven_row(path: Path, delimiter: str) -> ValueError | None:
    with _bytes(path) as file:
        rows = csv.reader((line.decode() for line in file), delimiter=delimiter)
        try:
            width = next((len(row) for row in rows if row), 0)
            for row in rows:
                if row and len(row) != width:
                    text = delimiter.join(row)
                    shown = text if len(text) <= SHOWN else text[:SHOWN] + "..."
                    return ValueError(
                        f"Expected {width} values in each line of {path}, as in the first, got {len(row)} in line "
                        f"{rows.line_num}, {shown!r}: put quotes around values that hold a {delimiter!r}, or mend the "
                        f"line."
                    )
        except csv.Error:
            return None
    return None


def _bytes(path: Path) -> gzip.GzipFile | io.BufferedReader:
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")


class CsvFile:
    """A table in a CSV file with names in its first line: UTF-8, commas (tabs in ``.tsv``), perhaps gzipped.

    Empty cells and the words that pandas and pyarrow take for missing (``NA``, ``NaN``, ``null``, ``N/A``, ...) are
    missing, in columns of text too. A column has the narrowest type that fits all of its values: whole numbers,
    numbers, booleans (true, false), dates, times, else text. Opening the file reads its names only; the types are
    found once, in one pass over all rows, when types or rows are first asked for.

    Attributes
    ----------
    names
        The names of the columns.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.stat().st_size == 0:
            raise ValueError(f"Expected a table, got {self.path}, which is empty: check what wrote it.")
        try:
            with _bytes(self.path) as file:
                lines = io.TextIOWrapper(file, "utf-8-sig", newline="")
                self.names = tuple(next(row for row in csv.reader(lines, delimiter=self._delimiter) if row))
        except StopIteration as error:
            raise explain(self.path, self._delimiter, ValueError("Empty CSV file")) from error
        except (csv.Error, zlib.error, EOFError, OSError, UnicodeDecodeError) as error:
            raise explain(self.path, self._delimiter, error) from error
        check_names(self.path, self.names)
        if looks_like_numbers(self.names):
            raise ValueError(
                f"Expected the names of the columns in the first line of {self.path}, got numbers only, "
                f"{', '.join(self.names[:5])}: add a line of names."
            )
        if len(self.names) == 1 and any(mark in self.names[0] for mark in ";|\t"):
            raise ValueError(
                f"Expected columns with commas between them in {self.path}, got one column {self.names[0]!r}: write it "
                f"with commas, or with tabs as .tsv."
            )

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        return self._scan[0]

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._scan[1]

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the table, or some of its columns in this order."""
        schema = self._schema_of(columns)
        return pa.Table.from_batches(list(self._stream(schema)), schema)

    def batches(self, columns: Sequence[str] | None = None, rows: int = 65_536) -> Iterator[pa.Table]:
        """Yield the table in parts of so many rows; memory holds about one of them."""
        schema = self._schema_of(columns)
        return tables_of(self._stream(schema), schema, rows)

    def _schema_of(self, columns: Sequence[str] | None) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in chosen_names(self.path, self.names, columns)])

    def _stream(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Parse the columns of a schema, block by block."""
        zipped = self.path.name.lower().endswith(".gz")
        try:
            with pyarrow.csv.open_csv(
                pa.input_stream(self.path, compression="gzip" if zipped else None),
                pyarrow.csv.ReadOptions(block_size=BLOCK),
                pyarrow.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                pyarrow.csv.ConvertOptions(column_types=schema, include_columns=schema.names, strings_can_be_null=True),
            ) as reader:
                yield from reader
        except (pa.ArrowException, OSError) as error:
            raise explain(self.path, self._delimiter, error) from error

    @cached_property
    def _scan(self) -> tuple[pa.Schema, int]:
        """The narrowest type of each column, and the number of rows."""
        fitting: dict[str, tuple[pa.DataType, ...]] = dict.fromkeys(self.names, (pa.null(), *KINDS))
        rows = 0
        for batch in self._stream(pa.schema([(name, pa.string()) for name in self.names])):
            rows += batch.num_rows
            for name, column in zip(self.names, batch.columns):
                fitting[name] = tuple(kind for kind in fitting[name] if _fits(column, kind))
        if rows == 0:
            raise ValueError(
                f"Expected rows below the names of the columns in {self.path}, got none: check what wrote it."
            )
        return pa.schema([(name, kinds[0] if kinds else pa.string()) for name, kinds in fitting.items()]), rows

    @property
    def _delimiter(self) -> str:
        return "\t" if self.path.name.lower().endswith((".tsv", ".tsv.gz")) else ","


def _fits(texts: pa.Array, kind: pa.DataType) -> bool:
    """Return whether the reader can read all of these texts as this type."""
    if kind == pa.null():
        return texts.null_count == len(texts)
    if kind == pa.bool_():
        return bool(pc.all(pc.is_in(texts.drop_null(), BOOLEANS)).as_py())
    return _casts(texts, kind) or (kind in TRIMMED and _casts(pc.utf8_trim(texts, " \t"), kind))


def _casts(texts: pa.Array, kind: pa.DataType) -> bool:
    try:
        texts.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True
