"""The scratch folder of a suite: checkpoints and forks of runs in progress, predictions, histories and logs."""

import os
from pathlib import Path

from svdkl_research.suites.suite import Task


def scratch_of(scratch: Path, task: Task, result: str) -> Path:
    """The folder for what one result of a task leaves beside its line in the results."""
    return scratch / task.suite / task.dataset / result / task.run


def checkpoint_of(scratch: Path, task: Task) -> Path:
    """The checkpoint of a task that is not finished, in a folder of its own."""
    return scratch_of(scratch, task, task.model) / "training" / "checkpoint.safetensors"


def fork_of(scratch: Path, task: Task) -> Path:
    """The file in which another fit leaves the epochs that a task begins with."""
    return scratch_of(scratch, task, task.model) / "fork.safetensors"


def open_scratch(root: Path) -> None:
    """Make the scratch folder, if it is not there, with a .gitignore that hides all of it."""
    root.mkdir(parents=True, exist_ok=True)
    ignored = root / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n")


def refuse_unwritable(folder: Path, option: str) -> None:
    """Refuse a folder that cannot be made or written to, which would show only after hours of training."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise OSError(
            f"Expected {option} to be a folder that can be written to, but {existing} cannot: choose another."
        )
