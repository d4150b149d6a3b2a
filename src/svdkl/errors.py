"""What other libraries are installed, and what their errors say, for a sentence of ours."""

from importlib.metadata import PackageNotFoundError, version


def first_line(error: BaseException) -> str:
    """The first line of its text, without the point at its end; its kind, if it has no text."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:") if lines else type(error).__name__


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
