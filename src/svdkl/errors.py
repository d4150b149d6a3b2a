"""Parts of error messages: other libraries' errors in one line, and which libraries are installed."""

from importlib.metadata import PackageNotFoundError, version


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, without a point at its end, or its type if it has no text."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__


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
