"""One page on a fitted model: how good it is, where it doubts, what it has learned, and what it is not for."""

from svdkl.report.page import write_report

__all__ = ["write_report"]
