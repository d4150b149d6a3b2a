"""What an error of another library says, for a sentence of ours.

Versions of what is installed.
"""

from importlib.metadata import PackageNotFoundError, version


def first_line(error: BaseException) -> str:
    """The first line of its text, without the point at its end; its kind, if it has no text."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__


def version_of(package: str) -> str | None:
    """The version of a package; None for one that is not installed, or is run from its sources."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
