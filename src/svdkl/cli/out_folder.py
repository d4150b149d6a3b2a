"""Where a training run writes: what may stand there already."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

MODEL, CHECKPOINT = "model", "checkpoint.safetensors"


def prepare_out_folder(request: Any, overwrite: bool) -> None:
    """Refuse a run that cannot start, or that would lose a model or an unfinished run; forget the latter if told to.

    Parameters
    ----------
    request
        A :class:`~svdkl.estimators.run.RunConfig`.
    """
    from svdkl.estimators.run import check_run
    from svdkl.tabular.files import open_table_file
    from svdkl.training.distributed import restarted

    out: Path = request.out
    if overwrite and request.resume:
        raise ValueError("Expected --resume or --overwrite, got both: one goes on from a run, the other forgets it.")
    existing = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise OSError(f"Expected --out in a folder that can be written to, got {out}: choose another path.")
    unfinished = is_unfinished(out)
    if restarted():  # by torchrun, with the options of the first start
        return
    if not overwrite and unfinished and not request.resume:
        raise ValueError(
            f"Expected --out without a run, got {out}, which holds an unfinished one: go on with --resume, or start "
            f"anew with --overwrite."
        )
    if not overwrite and not unfinished and (out / MODEL).exists():
        raise ValueError(
            f"Expected --out without a model, got {out}, which holds a finished one: choose another folder, or replace "
            f"it with --overwrite."
        )
    check_run(replace(request, resume=unfinished), open_table_file(request.data))
    if overwrite:
        (out / CHECKPOINT).unlink(missing_ok=True)


def is_unfinished(out: Path) -> bool:
    """Whether a run has been cut off there, and can go on."""
    return (out / CHECKPOINT).exists()
