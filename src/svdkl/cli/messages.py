"""What a command says on standard error: refusals, faults and warnings, each in one line."""

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FAULT, REFUSED, LOST, INTERRUPTED = 1, 2, 3, 130  # exit codes
MENDABLE = (ValueError, TypeError, OSError, ArithmeticError, MemoryError)  # by the user, if they say what was expected


class InterruptedRun(Exception):  # noqa: N818
    """The user has pressed Ctrl-C; the text says what is kept."""


def is_first_process() -> bool:
    """Whether this is the only process, or the one that speaks for all that train together."""
    return os.environ.get("RANK", "0") == "0"


def say(text: str) -> None:
    """One line on standard error. Of several processes that train together, all but the first say their number."""
    prefix = "" if is_first_process() else f"Process {os.environ['RANK']}: "
    print(prefix + " ".join(text.split()), file=sys.stderr, flush=True)


def explain(error: Exception) -> int:
    """Say what went wrong and give the exit code: 2 for what the user can mend, 1 for what only we can."""
    text = str(error)
    if isinstance(error, InterruptedRun):
        say(text)
        return INTERRUPTED
    if type(error).__name__ == "LostProcessError":  # whose module would load torch
        say(text)
        return LOST
    if text.startswith("Expected ") and isinstance(error, MENDABLE):
        say(text)
        return REFUSED
    if isinstance(error, OSError):
        say(f"Expected to reach {error.filename or 'a file'}, but that failed ({error.strerror or text}).")
        return REFUSED
    if isinstance(error, MemoryError):
        say("Expected enough memory, but it ran out: use --stream, a smaller --batch-size or a smaller network.")
        return REFUSED
    say(
        f"Expected this to work, but it failed with {type(error).__name__} ({text.rstrip('.')}), which is a fault of "
        f"svdkl: see where with svdkl --debug COMMAND ..., and report it."
    )
    return FAULT


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings as single lines, each text once; those for programmers are left out."""
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
