"""The state of a fit on disk, and what tells one fit from another."""

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from svdkl.estimators.plain import plain
from svdkl.estimators.settings import head_options
from svdkl.training.checkpoint import Checkpoint
from svdkl.training.config import TrainingConfig
from svdkl.training.distributed import joined
from svdkl.training.history import History
from svdkl.training.rows import Rows, Source

HISTORY = "history.jsonl"


def checkpoint_path(checkpoint: Any, warm: bool = False) -> Path | None:
    """Where a caller wants the state of a fit to be kept, if anywhere."""
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, str | os.PathLike) or Path(checkpoint).is_dir():
        raise ValueError(
            f"Expected checkpoint to be the path of a file, got {str(checkpoint)!r}: name one, in a folder that need "
            f"not exist yet."
        )
    if warm:
        raise ValueError(
            f"Expected checkpoint=None where warm_start goes on from a model, got {str(checkpoint)!r}: only fits from "
            f"the start can be taken up again, so save the model before."
        )
    return Path(checkpoint)


def history_of(checkpoint: Path | None) -> History:
    """The history of a fit, in ``history.jsonl`` beside its checkpoint if it has one; that of a fit before goes."""
    if checkpoint is None or not joined().first:
        return History()
    path = checkpoint.with_name(HISTORY)
    if not checkpoint.exists():
        path.unlink(missing_ok=True)
    return History(path)


def checkpoint_of(
    estimator: Any, path: Path | None, source: Source, held_out: Rows, config: TrainingConfig
) -> Checkpoint | None:
    """The file that keeps a fit's state; one of another table or of other parameters will be refused."""
    if path is None:
        return None
    encoder = None if estimator.encoder_ is None else json.dumps(estimator.encoder_.to_json())
    run = {
        **asdict(config),
        **source.facts,
        "fingerprint of the held-out rows": held_out.fingerprint(),
        "class_weight": repr(getattr(estimator, "class_weight", None)),
        "columns": None if encoder is None else hashlib.sha256(encoder.encode()).hexdigest(),
        "outputs": estimator._num_outputs,
        "likelihood": estimator._likelihood(),
        "num_features": estimator.num_features_,
        **estimator.network_options_,
        **{name: str(value) for name, value in head_options(estimator).items()},
    }
    return Checkpoint(path, {name: plain(value) for name, value in run.items()})
