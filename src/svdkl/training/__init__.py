"""Training: the recipe, its stages, and what keeps a run going."""

from typing import TYPE_CHECKING

from svdkl.doors import door

if TYPE_CHECKING:
    from svdkl.estimators.run import run
    from svdkl.estimators.run_config import RunConfig
    from svdkl.training.batches import Rows
    from svdkl.training.checkpoint import Checkpoint
    from svdkl.training.config import TrainingConfig
    from svdkl.training.evidence import fit_held_out_evidence
    from svdkl.training.history import Display
    from svdkl.training.recipe import train

__all__ = ["Checkpoint", "Display", "Rows", "RunConfig", "TrainingConfig", "fit_held_out_evidence", "run", "train"]

__getattr__ = door(
    __name__,
    {
        "Checkpoint": "svdkl.training.checkpoint",
        "Display": "svdkl.training.history",
        "Rows": "svdkl.training.batches",
        "TrainingConfig": "svdkl.training.config",
        "fit_held_out_evidence": "svdkl.training.evidence",
        "train": "svdkl.training.recipe",
        # A run is made of estimators, which lie above this room; launchers know it by this name.
        "RunConfig": "svdkl.estimators.run_config",
        "run": "svdkl.estimators.run",
    },
)
