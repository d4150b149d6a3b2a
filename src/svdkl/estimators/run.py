"""A training run from a file to a folder: by one process, or by each process of a group alike.

The folder holds ``model/`` (see :meth:`save`), ``run.json`` with the facts and ``history.jsonl`` with the epochs; while
the run is on, ``checkpoint.safetensors``, from which a run that was cut off goes on.
"""

import datetime
import json
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from svdkl.estimators.base import DeepKernelEstimator
from svdkl.estimators.classifier import SVDKLClassifier
from svdkl.estimators.regressor import SVDKLRegressor
from svdkl.estimators.run_folder import (
    CHECKPOINT,
    FACTS,
    MODEL,
    check_out,
    forget_run,
    goes_on,
    is_finished,
    load_model,
    read_facts,
    sweep,
)
from svdkl.estimators.streaming import target_of
from svdkl.tables.bins import looks_like_classes
from svdkl.tables.parquet_files import chosen_names
from svdkl.tables.table_files import ParquetFiles, TableFile, open_table_file
from svdkl.training.distributed import group
from svdkl.training.parquet_survey import refuse_missing
from svdkl.writing import written_whole

STREAMED_CELLS = 200_000_000  # a table of more is streamed, if it is not said what to do
TASKS = ("auto", "classification", "regression")


@dataclass(frozen=True)
class RunConfig:
    """What a run is told; plain values, so that it can be sent to other machines.

    Attributes
    ----------
    data, target, out
        The file or folder to read, the column to predict, the folder to write.
    task
        "classification", "regression", or "auto": classes are text, booleans, and whole numbers of at most 50 values.
    drop
        Columns that are not used.
    options
        Parameters of the estimator.
    resume
        Go on from the checkpoint in ``out``, if there is one; a run that has ended there is taken as it is.
    overwrite
        Forget a run that is there.
    stream
        Whether a Parquet file is streamed instead of read into memory; None decides by its size.
    epoch_rows
        Of an epoch of a streamed file; see :meth:`~svdkl.SVDKLClassifier.fit_parquet`.
    """

    data: Path
    target: str
    out: Path
    task: str = "auto"
    drop: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    resume: bool = False
    overwrite: bool = False
    stream: bool | None = None
    epoch_rows: int | None = None
    verbose: bool = True


class Outcome(NamedTuple):
    """A finished run."""

    estimator: DeepKernelEstimator
    facts: dict[str, Any]


def run(config: RunConfig | Mapping[str, Any]) -> Outcome:
    """Train, and write the folder. The configuration may also come as a dictionary of its fields.

    Under torchrun, Ray Train, Spark's TorchDistributor or any other that has made a process group or set torchrun's
    variables, every process calls this alike: they share the work, and the first one writes.
    """
    if not isinstance(config, RunConfig):
        config = RunConfig(**config)
    with group(str(config.options.get("device", "auto"))) as processes:
        out = Path(config.out)
        check_out(out, config.resume, config.overwrite)
        if goes_on(config.resume) and is_finished(out):
            return Outcome(load_model(out), read_facts(out))
        files = open_table_file(config.data)
        check_columns(config, files)
        estimator = make_estimator(config, files)
        if processes.first and config.overwrite and not goes_on(config.resume):
            forget_run(out)
        processes.gather(None)  # nobody looks for a checkpoint before that
        began = time.perf_counter()
        streamed = is_streamed(config, files)
        checkpoint = out / CHECKPOINT
        if streamed:
            estimator.fit_parquet(
                config.data, config.target, drop=config.drop, epoch_rows=config.epoch_rows, checkpoint=checkpoint
            )
        else:
            table = files.read([name for name in files.names if name not in config.drop])
            refuse_missing(table.column(config.target), config.target)
            y = target_of(table, config.target)
            estimator.fit(table.drop_columns([config.target]), y, checkpoint=checkpoint)
        facts = facts_of(config, estimator, streamed, time.perf_counter() - began, processes.size)
        if processes.first:
            sweep(out)
            estimator.save(out / MODEL)
            with written_whole(out / FACTS) as beside:
                beside.write_text(json.dumps(facts, indent=1, default=str) + "\n", encoding="utf-8")
            checkpoint.unlink(missing_ok=True)
        return Outcome(estimator, facts)


def check_columns(config: RunConfig, files: TableFile) -> None:
    """Refuse columns that cannot be trained on, before any work."""
    chosen_names(files.path, files.names, [config.target, *config.drop])
    if config.target in config.drop:
        raise ValueError(f"Expected to keep the target {config.target!r}, got it among the columns to drop.")
    if config.task not in TASKS:
        raise ValueError(f"Expected task to be one of {', '.join(TASKS)}, got {config.task!r}.")
    if len(files.names) - len(set(config.drop)) < 2:
        raise ValueError(f"Expected columns beside the target {config.target!r} in {files.path}, got none.")
    if config.stream and not isinstance(files, ParquetFiles):
        raise ValueError(f"Expected Parquet to stream, got {files.path}: convert it, or read it into memory.")
    kind = files.schema.field(config.target).type
    if pa.types.is_temporal(kind) or pa.types.is_nested(kind):
        raise ValueError(
            f"Expected a target of numbers, text or booleans, got {config.target!r} of type {kind}: convert it first."
        )


def make_estimator(config: RunConfig, files: TableFile) -> DeepKernelEstimator:
    """The estimator for the target's kind, with the run's options."""
    task = find_task(files, config.target) if config.task == "auto" else config.task
    kind = SVDKLClassifier if task == "classification" else SVDKLRegressor
    unknown = sorted(set(config.options) - set(kind().get_params()))
    if unknown:
        raise ValueError(
            f"Expected options of {kind.__name__} for the {task} of {config.target!r}, got {unknown[0]!r}: remove it, "
            f"or set the task."
        )
    return kind(**{"random_state": config.seed, "verbose": config.verbose, **config.options})


def find_task(files: TableFile, target: str) -> str:
    """What a target looks like: it is read only until there are too many values for classes."""
    distinct: set[Any] = set()
    for table in files.batches([target]):
        distinct.update(np.unique(target_of(table.filter(pc.is_valid(table.column(target))), target)).tolist())
        values = np.array(list(distinct))
        if values.dtype.kind == "f" and np.isinf(values).any():
            raise ValueError(f"Expected finite numbers in the target {target!r}, got infinity: drop those rows first.")
        if len(values) and not looks_like_classes(values):
            return "regression"
    return "classification"


def is_streamed(config: RunConfig, files: TableFile) -> bool:
    """Whether the file is streamed."""
    if not isinstance(files, ParquetFiles):
        return False
    return files.num_rows * len(files.names) > STREAMED_CELLS if config.stream is None else config.stream


def facts_of(
    config: RunConfig, estimator: DeepKernelEstimator, streamed: bool, seconds: float, num_processes: int
) -> dict[str, Any]:
    """What a reader of the model wants to know of its training."""
    best = min(epoch.held_out_nlp for epoch in estimator.history_)
    encoder = estimator.encoder_
    return {
        "data": str(config.data),
        "target": config.target,
        "task": "classification" if isinstance(estimator, SVDKLClassifier) else "regression",
        "rows": estimator.num_rows_seen_,
        "columns": [] if encoder is None else [column.name for column in encoder.schema.columns],
        "dropped": list(config.drop),
        "streamed": streamed,
        "processes": num_processes,
        "options": dict(config.options),
        "seed": config.seed,
        "epochs": len(estimator.history_),
        "best_held_out_nlp": best,
        "seconds": round(seconds, 1),
        "epoch_seconds": round(sum(epoch.seconds for epoch in estimator.history_), 1),
        **({"waited_seconds": round(estimator.seconds_waited_, 2)} if streamed else {}),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
    }
