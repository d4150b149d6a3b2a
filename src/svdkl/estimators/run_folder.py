"""The folder of a training run: what it holds, what may stand there when a run starts, and the model in it."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import nn

from svdkl.estimators.fitted import Fitted
from svdkl.estimators.fitting import HISTORY
from svdkl.estimators.storage import NetworkNeededError, load_fitted
from svdkl.training.distributed import restarted
from svdkl.writing import NO_SEAL, SEAL, is_sealed, seal, written_whole

MODEL, FACTS, CHECKPOINT, REPORT = "model", "run.json", "checkpoint.safetensors", "report.html"


def is_unfinished(out: Path) -> bool:
    """Tell whether a folder holds a run that was cut off and can go on."""
    return (out / CHECKPOINT).exists()


def is_finished(out: Path) -> bool:
    """Tell whether a folder holds a run that has ended, after which none has begun."""
    return (out / FACTS).exists() and (out / MODEL).exists() and not is_unfinished(out)


def goes_on(resume: bool) -> bool:
    """Tell whether a run goes on from what it finds: it was told to, or torchrun has started it once more."""
    return resume or restarted()


def check_out(out: Path, resume: bool, overwrite: bool) -> None:
    """Refuse a folder that cannot be written to, or in which a run would lose something."""
    if resume and overwrite:
        raise ValueError("Expected --resume or --overwrite, got both: one goes on from a run, the other forgets it.")
    existing = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise OSError(f"Expected --out in a folder that can be written to, got {out}: choose another path.")
    strange = sorted(file.name for file in out.iterdir() if not _is_ours(file.name)) if out.exists() else []
    if strange:
        raise ValueError(f"Expected --out to be new or of a run, got {out} with {strange[0]!r}: choose another.")
    if goes_on(resume) or overwrite:
        return
    if is_unfinished(out):
        raise ValueError(
            f"Expected --out without a run, got {out}, which holds an unfinished one: go on with --resume, or start "
            f"anew with --overwrite."
        )
    if (out / MODEL).exists():
        raise ValueError(
            f"Expected --out without a model, got {out}, which holds a finished one: choose another folder, or replace "
            f"it with --overwrite."
        )


def forget_run(out: Path) -> None:
    """Remove what a run has left, except its model, which stays until there is another."""
    for name in (CHECKPOINT, FACTS, HISTORY):
        (out / name).unlink(missing_ok=True)


def sweep(out: Path) -> None:
    """Remove what a run has left beside its model when it was killed while saving."""
    for rest in out.glob(f".{MODEL}.*"):
        shutil.rmtree(rest, ignore_errors=True)


def _is_ours(name: str) -> bool:
    known = (MODEL, FACTS, HISTORY, CHECKPOINT, REPORT)
    return name.removesuffix(".part") in known or name.startswith(tuple(f".{part}." for part in known))


def load_model(path: str | Path, make_net: Callable[[], nn.Module] | None = None) -> Fitted:
    """Load the fitted model that a folder holds.

    Parameters
    ----------
    path
        The folder of a run, or of a model that a program has saved.
    make_net
        Makes the network of a model that has the user's own.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"Expected the folder of a model, found no {path}: check the path.")
    if not (path / MODEL).exists() and is_unfinished(path):
        raise ValueError(
            f"Expected a finished model, got {path}, which holds an unfinished run: go on with svdkl train --resume."
        )
    folder = path / MODEL if (path / MODEL).is_dir() else path
    try:
        fitted = load_fitted(folder, None)
    except NetworkNeededError as error:
        if make_net is None:
            raise ValueError(
                f"Expected --net MODULE:NAME, which makes the network of {path}, since its code is not stored beside "
                f"the model, got none: name the class or function that made it."
            ) from error
        return load_fitted(folder, make_net())
    if make_net is not None:
        raise ValueError(f"Expected no --net for {path}, whose network is this package's own, got one: leave it out.")
    return fitted


def read_facts(path: str | Path) -> dict[str, Any]:
    """Read the facts that a run wrote down; a model that was saved by a program has none."""
    path = Path(path)
    file = path / FACTS
    if path.name == MODEL and not (path / MODEL).is_dir():  # a run's folder may have that name, too
        file = path.parent / FACTS
    if not file.is_file():
        return {}
    try:
        data = file.read_bytes()
        facts = json.loads(data)
    except (ValueError, OSError, RecursionError) as error:
        raise _damaged(file) from error
    if not is_sealed(data) or not isinstance(facts, dict):
        raise _damaged(file)
    return {name: fact for name, fact in facts.items() if name != SEAL}


def write_facts(out: Path, facts: dict[str, Any]) -> None:
    """Write down the facts of a run, with a hash by which damage is noticed."""
    with written_whole(out / FACTS) as beside:
        beside.write_text(json.dumps({SEAL: NO_SEAL, **facts}, indent=1, default=str) + "\n", encoding="utf-8")
        seal(beside)


def _damaged(file: Path) -> ValueError:
    return ValueError(f"Expected the facts of a run in {file}, but it is damaged or changed: delete it to go without.")
