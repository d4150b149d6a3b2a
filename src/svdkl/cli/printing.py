"""What a command prints on standard output."""

import json
import math
from collections.abc import Sequence
from typing import Any


def print_json(document: Any) -> None:
    """One JSON document. Numbers that JSON does not have are null."""
    print(json.dumps(_plain(document), indent=2, ensure_ascii=False, default=str))


def print_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Columns side by side; numbers stand to the right."""
    lines = [list(head), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    right = [all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(head))]
    for line in lines:
        cells = [cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(line, widths, right)]
        print("  ".join(cells).rstrip())


def amount_of_bytes(count: int | float) -> str:
    """Such as 1.5 GB."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def amount_of_time(seconds: int | float) -> str:
    """Such as 12 s, 3 min, 1.5 h."""
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
