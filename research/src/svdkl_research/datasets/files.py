"""The folder of the data files, and checks that a file holds the published table."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from svdkl.errors import first_line
from svdkl_research.datasets.dataset import Array

VARIABLE = "SVDKL_DATA"
CACHE = Path("~/.cache/svdkl/data")


def data_folder(data_dir: Path | None) -> Path:
    """Return ``data_dir``, else the folder that SVDKL_DATA names, else the user's cache."""
    if data_dir is None:
        data_dir = Path(os.environ.get(VARIABLE) or CACHE)
    return data_dir.expanduser()


def find_file(stem: str, folder: Path) -> Path | None:
    """Find the Parquet or CSV file with this stem; None if neither is there."""
    return next((path for ending in ("parquet", "csv") if (path := folder / f"{stem}.{ending}").is_file()), None)


def missing_file(stem: str, folder: Path, way_out: str) -> FileNotFoundError:
    """Make the error for a file that is not there."""
    return FileNotFoundError(
        f"Expected {stem}.parquet (or .csv) in {folder}, found none: name its folder by --data-dir or {VARIABLE}, or "
        f"get the data ({way_out})."
    )


def not_the_table(name: str, path: Path, error: Exception) -> ValueError:
    """Make the error for a table whose values have other types than the published ones."""
    return ValueError(
        f"Expected the published table of {name} in {path}, but its values are others ({first_line(error)})."
    )


def read_table(path: Path) -> pa.Table:
    """Read the table of a Parquet or CSV file."""
    try:
        return pyarrow.csv.read_csv(path) if path.suffix == ".csv" else pyarrow.parquet.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"Expected a whole table in {path}, but it cannot be read ({first_line(error)}).") from error


def check_size(name: str, table: pa.Table, rows: int, columns: int) -> None:
    """Refuse a table of another size than the published one."""
    if (table.num_rows, table.num_columns) != (rows, columns):
        raise ValueError(
            f"Expected {name} with {rows} rows and {columns} columns, got {table.num_rows} and {table.num_columns}: "
            f"this is not the published table."
        )


def check_columns(name: str, table: pa.Table, wanted: tuple[str, ...]) -> None:
    """Refuse a table that lacks a column."""
    lacking = [column for column in wanted if column not in table.column_names]
    if lacking:
        raise ValueError(
            f"Expected a column {lacking[0]!r} in {name}, got {', '.join(table.column_names)}: this is another table."
        )


def class_numbers(name: str, labels: pa.ChunkedArray, counts: dict[str, int]) -> Array:
    """Return the position of each label in ``counts``; refuse labels with other counts."""
    # OpenML's copies write labels with a dot or spaces around them, and numbers as categories.
    texts = [str(label).strip().rstrip(".") for label in labels.to_pylist()]
    found = Counter(texts)
    if found != Counter(counts):
        raise ValueError(
            f"Expected the classes of {name} to be {_listed(counts)}, got {_listed(dict(found.most_common(10)))}: this "
            f"is not the published table."
        )
    places = {label: place for place, label in enumerate(counts)}
    return np.array([places[text] for text in texts], dtype=np.int64)


def question_marks_as_missing(table: pa.Table) -> pa.Table:
    """Replace ``?`` in text columns by missing values."""
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            column = table.column(place)
            missing = pc.equal(pc.utf8_trim_whitespace(column), "?")
            table = table.set_column(place, field.name, pc.if_else(missing, pa.scalar(None, field.type), column))
    return table


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{label} ({count})" for label, count in counts.items())
