"""Parts of error messages: names that were meant, other libraries' errors, and which libraries are installed."""

from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, without a point at its end, or its type if it has no text."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__


def suggestion(name: str, names: Sequence[str], most: int = 10) -> str:
    """Suggest which of the known names an unknown name was meant to be."""
    lowered = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), lowered, 1)
    if near:
        return f"the nearest name is {lowered[near[0]]!r}"
    shown = ", ".join(map(repr, names[:most]))
    return f"there are {shown}" + (f" and {len(names) - most} more" if len(names) > most else "")


def missing_package(package: str, purpose: str, extra: str) -> ImportError:
    """Make the error for an optional package that is not installed."""
    return ImportError(
        f"Expected the package {package} for {purpose}, found it not installed: run pip install 'svdkl[{extra}]'."
    )


def version_of(package: str) -> str | None:
    """Return a package's version, or None if it is not installed or runs from its sources."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
