"""A fitted model becomes a file that other programs run without svdkl."""

from svdkl.export.write import Export, export_model

__all__ = ["Export", "export_model"]
