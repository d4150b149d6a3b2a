"""What is wrong with a CSV file that could not be read, and in which line: found by reading it again, slowly."""

import csv
import gzip
from collections.abc import Sequence
from io import BufferedIOBase
from pathlib import Path

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
SHOWN = 60  # characters of a value in a message


def explain(path: Path, delimiter: str, error: Exception) -> ValueError | OSError:
    """The refusal for a file on which the reader failed with this error."""
    if isinstance(error, PermissionError | FileNotFoundError | IsADirectoryError):
        return OSError(f"Expected to read {path}, but that failed ({error.strerror}): check the path.")
    try:
        found = _foreign_encoding(path) or _uneven_row(path, delimiter)
    except (OSError, EOFError):
        return ValueError(f"Expected a whole gzip file, got {path}, which is cut off or damaged: get it once more.")
    reason = " ".join(str(error).split()).rstrip(".")
    return found or ValueError(f"Expected a whole CSV file, got {path}, which cannot be read ({reason}).")


def looks_like_numbers(names: Sequence[str]) -> bool:
    """Whether a line that should hold names holds numbers only."""
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


def _bytes(path: Path) -> BufferedIOBase:
    return gzip.open(path, "rb") if path.name.lower().endswith(".gz") else path.open("rb")
