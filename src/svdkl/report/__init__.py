"""One page on a fitted model: how good it is, where it doubts, what it has learned, and what it is not for."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from svdkl.errors import missing_package

if TYPE_CHECKING:
    from svdkl.report.page import write_report

__all__ = ["write_report"]


def __getattr__(name: str) -> object:
    """Import the page when it is first asked for: its figures need matplotlib, the facts beside it do not."""
    if name == "write_report":
        if find_spec("matplotlib") is None:
            raise missing_package("matplotlib", "the report", "report")
        from svdkl.report.page import write_report

        return write_report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
