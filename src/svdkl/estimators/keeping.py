"""The state of a fit on disk, and what tells one fit from another."""

import copy
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from svdkl.estimators.options import head_options, head_rates, joint_batch_size, plain
from svdkl.training.batches import Rows, Source
from svdkl.training.checkpoint import Checkpoint, Snapshot
from svdkl.training.config import TrainingConfig
from svdkl.training.distributed import joined
from svdkl.training.history import History

HISTORY = "history.jsonl"


@dataclass(frozen=True)
class Kept:
    """Where the state of a fit is kept, and where other fits that begin with a plain network's epochs take it up.

    Attributes
    ----------
    path
        The checkpoint's.
    forks
        By the path of another fit's checkpoint, the parameters in which that fit differs, such as its recipe.
    """

    path: Path
    forks: Mapping[Path, Mapping[str, Any]] = field(default_factory=dict)


def where_kept(checkpoint: Any, warm: bool = False) -> Kept | None:
    """Where a caller wants the state of a fit to be kept, if anywhere."""
    if checkpoint is None:
        return None
    kept = checkpoint if isinstance(checkpoint, Kept) else None
    if kept is None and (not isinstance(checkpoint, str | os.PathLike) or Path(checkpoint).is_dir()):
        raise ValueError(
            f"Expected checkpoint to be the path of a file, got {str(checkpoint)!r}: name one, in a folder that need "
            f"not exist yet."
        )
    if warm:
        raise ValueError(
            f"Expected checkpoint=None where warm_start goes on from a model, got {str(checkpoint)!r}: only fits from "
            f"the start can be taken up again, so save the model before."
        )
    return kept or Kept(Path(checkpoint))


def history_of(kept: Kept | None) -> History:
    """The history of a fit, in ``history.jsonl`` beside its checkpoint if it has one; that of a fit before goes."""
    if kept is None or not joined().first:
        return History()
    path = kept.path.with_name(HISTORY)
    if not kept.path.exists():
        path.unlink(missing_ok=True)
    return History(path)


def checkpoint_of(
    estimator: Any, kept: Kept | None, source: Source, held_out: Rows, config: TrainingConfig
) -> Checkpoint | None:
    """The file that keeps a fit's state; one of another table or of other parameters will be refused."""
    if kept is None:
        return None
    forks = [_fork(estimator, path, options, source, held_out, config) for path, options in kept.forks.items()]

    def follow(snapshot: Snapshot) -> None:
        for fork in forks:
            fork.follow(snapshot)

    return Checkpoint(kept.path, _facts(estimator, source, held_out, config), follow)


def _fork(
    estimator: Any, path: Path, options: Mapping[str, Any], source: Source, held_out: Rows, config: TrainingConfig
) -> Any:
    """For a fit that differs in some parameters from this one of a plain network."""
    from svdkl_research.forks import Fork

    if estimator.recipe != "dnn":
        raise ValueError(f"Expected a fit with recipe='dnn' for others to go on from, got {estimator.recipe!r}.")
    other = copy.copy(estimator).set_params(**options)
    variational_rate, kernel_rate = head_rates(other, source.num_rows)
    told = replace(
        config,
        recipe=other.recipe,
        evidence=config.evidence and bool(other.evidence),
        joint_batch_size=joint_batch_size(other),
        variational_rate=variational_rate,
        kernel_rate=kernel_rate,
    )
    checkpoint = Checkpoint(path, _facts(other, source, held_out, told))
    return Fork(checkpoint, told.network_epochs, as_features=other.gps == "outputs")


def _facts(estimator: Any, source: Source, held_out: Rows, config: TrainingConfig) -> dict[str, Any]:
    """What tells a fit from others."""
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
    return {name: plain(value) for name, value in run.items()}
