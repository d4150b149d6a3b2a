"""Versions of what is installed."""

from importlib.metadata import PackageNotFoundError, version


def version_of(package: str) -> str | None:
    """The version of a package; None for one that is not installed, or is run from its sources."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
