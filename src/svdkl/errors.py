"""Parts of the sentences that refuse something: near names, other libraries' errors, packages that are missing."""

from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version


def first_line(error: BaseException) -> str:
    """The first line of its text, without the point at its end; its kind, if it has no text."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__


def suggestion(name: str, names: Sequence[str], most: int = 10) -> str:
    """Say which of these names another name may have meant."""
    lowered = {known.lower(): known for known in names}
    near = get_close_matches(name.lower(), lowered, 1)
    if near:
        return f"the nearest name is {lowered[near[0]]!r}"
    shown = ", ".join(map(repr, names[:most]))
    return f"there are {shown}" + (f" and {len(names) - most} more" if len(names) > most else "")


def missing_package(package: str, purpose: str, extra: str) -> ImportError:
    """Make the refusal where an optional package is not installed."""
    return ImportError(
        f"Expected the package {package} for {purpose}, found it not installed: run pip install 'svdkl[{extra}]'."
    )


def version_of(package: str) -> str | None:
    """The version of a package; None for one that is not installed, or is run from its sources."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
