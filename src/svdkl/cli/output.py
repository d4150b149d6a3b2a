"""Everything that a command says, prints or writes.

Refusals, faults and warnings are single lines on standard error; results go to standard output. A table is written part
by part beside its place and then renamed, so that no half of it is ever found.
"""

import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from svdkl.writing import written_whole

FAULT, REFUSED, LOST, INTERRUPTED = 1, 2, 3, 130  # exit codes
# An error of these kinds is the user's to mend, if it says what was expected; any other is a fault of ours.
MENDABLE = (ValueError, TypeError, OSError, ArithmeticError, MemoryError, ImportError)
SUFFIXES = (".csv", ".parquet")
SHOWN = 5  # names in a message: as many as a line has room for


class InterruptedRun(Exception):  # noqa: N818
    """The user has pressed Ctrl-C; the message says what is kept."""


def is_first_process() -> bool:
    """Tell whether this process speaks for all that train together; one alone does."""
    return os.environ.get("RANK", "0") == "0"


def say(text: str) -> None:
    """Print one line on standard error, with the number of the process unless it is the first."""
    prefix = "" if is_first_process() else f"Process {os.environ['RANK']}: "
    print(prefix + " ".join(text.split()), file=sys.stderr, flush=True)


def listed(names: Sequence[str]) -> str:
    """Write down the first few names."""
    shown = ", ".join(map(repr, names[:SHOWN]))
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown


def explain(error: Exception) -> int:
    """Say what went wrong, and return the exit code: 2 for what the user can mend, 1 for what only we can."""
    text, code = str(error), REFUSED
    if isinstance(error, InterruptedRun):
        code = INTERRUPTED
    elif type(error).__name__ == "LostProcessError":  # its module would load torch
        code = LOST
    elif text.startswith("Expected ") and isinstance(error, MENDABLE):
        pass
    elif isinstance(error, OSError):
        text = f"Expected to reach {error.filename or 'a file'}, but that failed ({error.strerror or text})."
    elif isinstance(error, MemoryError):
        text = "Expected enough memory, but it ran out: use --stream, a smaller --batch-size or a smaller network."
    else:
        code = FAULT
        text = (
            f"Expected this to work, but it failed with {type(error).__name__} ({text.rstrip('.')}), which is a fault "
            f"of svdkl: see where with svdkl --debug COMMAND ..., and report it."
        )
    say(text)
    return code


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print each warning once, as a single line; warnings for programmers are left out."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        text = " ".join(str(message).split())
        if text not in shown and is_first_process():
            shown.add(text)
            say(f"Warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = show  # restored by catch_warnings
        yield


def print_json(document: Any) -> None:
    """Print one JSON document; numbers that JSON does not have are null."""
    print(json.dumps(_plain(document), indent=2, ensure_ascii=False, default=str))


def print_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print columns side by side, with numbers to the right."""
    lines = [list(head), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    right = [all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(head))]
    for line in lines:
        cells = [cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(line, widths, right)]
        print("  ".join(cells).rstrip())


def amount_of_bytes(count: int | float) -> str:
    """Return text such as 1.5 GB."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def amount_of_time(seconds: int | float) -> str:
    """Return text such as 12 s, 3 min, 1.5 h."""
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _text(cell: Any) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    if isinstance(cell, float):
        return f"{cell:.4f}" if abs(cell) < 1000 else f"{cell:.6g}"
    return f"{cell:,}" if type(cell) is int else str(cell)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def check_out_file(out: Path, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Refuse an output file of another kind, or in a folder that cannot be written to, before any work."""
    if not out.name.endswith(suffixes):
        raise ValueError(f"Expected --out to end in {' or '.join(suffixes)}, got {out}: rename it.")
    if out.is_dir() or not out.absolute().parent.is_dir() or not os.access(out.absolute().parent, os.W_OK):
        raise OSError(f"Expected --out in a folder that can be written to, got {out}: choose another path.")


def write_tables(tables: Iterator[Any], out: Path | None) -> int:
    """Write tables of one schema as one CSV or Parquet file, or as CSV to standard output, and count the rows."""
    if out is None:
        return _write(tables, sys.stdout.buffer, ".csv")
    with written_whole(out) as beside:
        return _write(tables, str(beside), out.suffix)


def _write(tables: Iterator[Any], sink: Any, suffix: str) -> int:
    import pyarrow.csv
    import pyarrow.parquet

    first = next(tables)  # there is one: files without rows are refused when they are opened
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
