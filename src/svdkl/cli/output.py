"""Tables written part by part: beside their place and then renamed into it, or to standard output."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from svdkl.writing import written_whole

SUFFIXES = (".csv", ".parquet")


def check_out_file(out: Path, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Refuse a place where no such file can be written, before any work."""
    if not out.name.endswith(suffixes):
        raise ValueError(f"Expected --out to end in {' or '.join(suffixes)}, got {out}: rename it.")
    if out.is_dir() or not out.absolute().parent.is_dir() or not os.access(out.absolute().parent, os.W_OK):
        raise OSError(f"Expected --out in a folder that can be written to, got {out}: choose another path.")


def write_tables(tables: Iterator[Any], out: Path | None) -> int:
    """Write tables of one schema as one CSV or Parquet file, or as CSV to standard output; gives the rows."""
    if out is None:
        return _write(tables, sys.stdout.buffer, ".csv")
    with written_whole(out) as beside:
        return _write(tables, str(beside), out.suffix)


def _write(tables: Iterator[Any], sink: Any, suffix: str) -> int:
    import pyarrow.csv
    import pyarrow.parquet

    first = next(tables)  # files without rows have been refused
    rows = first.num_rows
    if suffix == ".csv":
        writer = pyarrow.csv.CSVWriter(sink, first.schema)
    else:
        writer = pyarrow.parquet.ParquetWriter(sink, first.schema)
    with writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)
            rows += table.num_rows
    return rows
