"""The state of a fit on disk, and what tells one fit from another."""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from svdkl.estimators.settings import head_options
from svdkl.training.checkpoint import Checkpoint
from svdkl.training.config import TrainingConfig
from svdkl.training.distributed import joined
from svdkl.training.history import History
from svdkl.training.rows import Source

HISTORY = "history.jsonl"


def history_of(checkpoint: Any) -> History:
    """The history of a fit, in ``history.jsonl`` beside its checkpoint if it has one; that of a fit before goes."""
    if checkpoint is None or not joined().first:
        return History()
    path = Path(checkpoint).with_name(HISTORY)
    if not Path(checkpoint).exists():
        path.unlink(missing_ok=True)
    return History(path)


def checkpoint_of(estimator: Any, path: Any, source: Source, config: TrainingConfig) -> Checkpoint | None:
    """The file that keeps a fit's state; one of another table or of other parameters will be refused."""
    if path is None:
        return None
    encoder = None if estimator.encoder_ is None else json.dumps(estimator.encoder_.to_json())
    run = {
        **asdict(config),
        **source.facts,
        "class_weight": repr(getattr(estimator, "class_weight", None)),
        "columns": None if encoder is None else hashlib.sha256(encoder.encode()).hexdigest(),
        "outputs": estimator._num_outputs,
        "likelihood": estimator._likelihood(),
        "num_features": estimator.num_features_,
        **estimator.network_options_,
        **{name: str(value) for name, value in head_options(estimator).items()},
    }
    return Checkpoint(Path(path), run)
