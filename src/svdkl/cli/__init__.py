"""The command line: each command is a file that parses, calls and prints.

Functions that need torch are imported when a command calls them, so that no ``--help`` waits for it.
"""

from typing import TYPE_CHECKING

from svdkl.doors import door

if TYPE_CHECKING:
    from svdkl.cli.saved_model import open_model
    from svdkl.cli.scoring import score, tables_of_predictions
    from svdkl.estimators.dry_run import plan_run
    from svdkl.estimators.run import Prepared
    from svdkl.export.write import export_model
    from svdkl.report import write_report

__all__ = ["Prepared", "export_model", "open_model", "plan_run", "score", "tables_of_predictions", "write_report"]

__getattr__ = door(
    __name__,
    {
        "Prepared": "svdkl.estimators.run",
        "export_model": "svdkl.export.write",
        "open_model": "svdkl.cli.saved_model",
        "plan_run": "svdkl.estimators.dry_run",
        "score": "svdkl.cli.scoring",
        "tables_of_predictions": "svdkl.cli.scoring",
        "write_report": "svdkl.report",
    },
)
