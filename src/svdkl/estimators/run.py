"""A training run from a file to a folder: by one worker, or by each worker of a group alike.

The folder holds the saved ``model/``, ``run.json`` with the facts and ``history.jsonl`` with the epochs; while the run
is on, ``checkpoint.safetensors``, from which a run that was cut off goes on.
"""

import datetime
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from svdkl.estimators.base import DeepKernelEstimator
from svdkl.estimators.building import choose_device
from svdkl.estimators.classifier import SVDKLClassifier
from svdkl.estimators.fitted import Fitted
from svdkl.estimators.fitting import fit_model, prepare_table
from svdkl.estimators.options import Options
from svdkl.estimators.regressor import SVDKLRegressor
from svdkl.estimators.run_config import RunConfig
from svdkl.estimators.run_folder import (
    CHECKPOINT,
    MODEL,
    check_out,
    forget_run,
    goes_on,
    is_finished,
    load_model,
    read_facts,
    sweep,
    write_facts,
)
from svdkl.estimators.storage import save_fitted
from svdkl.estimators.streaming import open_stream
from svdkl.estimators.targets import Classes, Reals, Targets
from svdkl.tables.bins import are_class_numbers
from svdkl.tables.parquet_files import chosen_names, plain_column, refuse_missing, values_of
from svdkl.tables.table_files import ParquetFiles, TableFile, open_table_file
from svdkl.training.distributed import group

# A table of more cells is streamed, if it is not said what to do: in memory it would take some gigabytes.
STREAMED_CELLS = 200_000_000
KINDS: dict[str, type[Targets]] = {kind.task: kind for kind in (Classes, Reals)}


class Prepared:
    """A run whose folder, columns and options have been checked, with the file open.

    The file is read when its rows are first asked for, and then once.

    Parameters
    ----------
    writes
        Whether the folder will be written to; a dry run writes nothing.

    Attributes
    ----------
    streamed
        Whether the file is streamed instead of read into memory.
    """

    def __init__(self, config: RunConfig, writes: bool = True) -> None:
        if writes:
            check_out(config.out, config.resume, config.overwrite)
        self.config = config
        self.file: TableFile = open_table_file(config.data)
        self._check_columns()
        self.options = Options.of({"random_state": config.seed, "verbose": config.verbose, **config.options})
        choose_device(self.options.device)
        self.streamed = self._is_streamed()

    @property
    def checkpoint(self) -> Path:
        """The file that keeps the state of a run until the run has ended."""
        return self.config.out / CHECKPOINT

    @property
    def features(self) -> list[str]:
        """The columns that are read beside the target."""
        return [name for name in self.file.names if name not in (self.config.target, *self.config.drop)]

    @cached_property
    def table(self) -> pa.Table:
        """The features and the target, in memory."""
        table = self.file.read([name for name in self.file.names if name not in self.config.drop])
        refuse_missing(table.column(self.config.target), self.config.target)
        return table

    def target_parts(self) -> Iterator[pa.ChunkedArray]:
        """Go through the target: at once if the table is in memory, else part by part."""
        target = self.config.target
        if not self.streamed:
            yield self.table.column(target)
            return
        start = 0
        for part in self.file.batches([target]):
            refuse_missing(part.column(target), target, start)
            start += part.num_rows
            yield part.column(target)

    @cached_property
    def kind(self) -> type[Targets]:
        """Whether classes or real numbers are predicted; options or a target that do not suit it are refused."""
        config = self.config
        kind = self._kind_of_target() if config.task == "auto" else KINDS[config.task]
        own = [one.name for one in fields(Options) if one.metadata["task"] in ("", kind.task)]
        foreign = sorted(set(config.options) - set(own))
        if foreign:
            raise ValueError(
                f"Expected options of {kind.estimator} for the {kind.task} of {config.target!r}, got {foreign[0]!r}: "
                f"remove it, or set the task."
            )
        if config.task != "auto":
            self._check_target(kind)
        return kind

    def _check_target(self, kind: type[Targets]) -> None:
        """Refuse a target that does not suit the task that was asked for."""
        config = self.config
        found = self.file.schema.field(config.target).type
        numbers = pa.types.is_integer(found) or pa.types.is_floating(found) or pa.types.is_decimal(found)
        if kind is Reals and not numbers and not pa.types.is_boolean(found):
            raise ValueError(
                f"Expected numbers in the target {config.target!r} for regression, got {found}: name another --target."
            )
        if kind is Classes and pa.types.is_floating(found):
            for column in self.target_parts():
                broken = column.filter(pc.and_(pc.is_finite(column), pc.not_equal(column, pc.floor(column))))
                if len(broken):
                    raise ValueError(
                        f"Expected classes in the target {config.target!r}, got numbers such as {broken[0]}: use "
                        f"--task regression."
                    )

    def run(self) -> "Outcome":
        """Train, and write the folder: by this process, or by all workers of its group together."""
        config, out = self.config, self.config.out
        ended = _ended(config)
        if ended is not None:
            return ended
        with group(str(self.options.device)) as workers:
            kind = self.kind  # refuses a target that does not suit, while an earlier run is still there
            if workers.first and config.overwrite and not goes_on(config.resume):
                forget_run(out)
            workers.gather(None)  # nobody looks for a checkpoint before that
            began = time.perf_counter()
            fitted = self._fit(kind)
            facts = _facts_of(self, fitted, time.perf_counter() - began, workers.size)
            if workers.first:
                sweep(out)
                save_fitted(fitted, out / MODEL)
                write_facts(out, facts)
                self.checkpoint.unlink(missing_ok=True)
            return Outcome(fitted, facts)

    def _fit(self, kind: type[Targets]) -> Fitted:
        """Train a model of such targets on the file; :attr:`checkpoint` keeps the state after each epoch."""
        config, options = self.config, self.options
        if self.streamed:
            given = open_stream(options, kind, config.data, config.target, config.drop, config.epoch_rows)
        else:
            X = self.table.drop_columns([config.target])
            given = prepare_table(options, kind, X, values_of(self.table, config.target))
        return fit_model(given, self.checkpoint)

    def _check_columns(self) -> None:
        config, file = self.config, self.file
        chosen_names(file.path, file.names, [config.target, *config.drop])
        if config.target in config.drop:
            raise ValueError(f"Expected to keep the target {config.target!r}, got it among the columns to drop.")
        if config.task not in ("auto", *KINDS):
            raise ValueError(f"Expected task to be one of auto, {', '.join(KINDS)}, got {config.task!r}.")
        if not self.features:
            raise ValueError(f"Expected columns beside the target {config.target!r} in {file.path}, got none.")
        if config.stream and not isinstance(file, ParquetFiles):
            raise ValueError(f"Expected Parquet to stream, got {file.path}: convert it, or read it into memory.")
        kind = file.schema.field(config.target).type
        if pa.types.is_temporal(kind) or pa.types.is_nested(kind):
            raise ValueError(
                f"Expected a target of numbers, text or booleans, got {config.target!r} of type {kind}: convert it "
                f"first."
            )

    def _is_streamed(self) -> bool:
        if not isinstance(self.file, ParquetFiles):
            return False
        by_size = self.file.num_rows * len(self.file.names) > STREAMED_CELLS
        return by_size if self.config.stream is None else self.config.stream

    def _kind_of_target(self) -> type[Targets]:
        """Tell what a target looks like; numbers are read only until there are too many for classes."""
        target, distinct = self.config.target, set[Any]()
        for column in map(plain_column, self.target_parts()):
            if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
                return Classes
            distinct.update(column.unique().to_pylist())
            values = np.array(list(distinct))
            if values.dtype.kind == "f" and np.isinf(values).any():
                raise ValueError(
                    f"Expected finite numbers in the target {target!r}, got infinity: drop those rows first."
                )
            if not are_class_numbers(values):
                return Reals
        return Classes


class Outcome(NamedTuple):
    """A finished run.

    Attributes
    ----------
    fitted, facts
        The model, and what is written down of its training.
    """

    fitted: Fitted
    facts: dict[str, Any]

    @property
    def estimator(self) -> DeepKernelEstimator:
        """The model as a classifier or regressor."""
        return (SVDKLRegressor if self.fitted.classes is None else SVDKLClassifier).of(self.fitted)


def run(config: RunConfig | Mapping[str, Any]) -> Outcome:
    """Train, and write the folder. The configuration may also come as a dictionary of its fields.

    Under torchrun, Ray Train, Spark's TorchDistributor or any other that has made a process group or set torchrun's
    variables, every worker calls this alike: they share the work, and the first one writes.
    """
    config = config if isinstance(config, RunConfig) else RunConfig.of(config)
    return _ended(config) or Prepared(config).run()


def _ended(config: RunConfig) -> Outcome | None:
    """Return the run that is to be gone on with, if it has ended."""
    if not (goes_on(config.resume) and is_finished(config.out)):
        return None
    check_out(config.out, config.resume, config.overwrite)
    return Outcome(load_model(config.out), read_facts(config.out))


def _facts_of(prepared: Prepared, fitted: Fitted, seconds: float, num_workers: int) -> dict[str, Any]:
    """Gather what a reader of the model wants to know of its training."""
    config = prepared.config
    return {
        "data": str(config.data),
        "target": config.target,
        "task": fitted.targets.task,
        "rows": fitted.num_rows_seen,
        "columns": [] if fitted.encoder is None else [column.name for column in fitted.encoder.schema.columns],
        "dropped": list(config.drop),
        "streamed": prepared.streamed,
        "processes": num_workers,
        "options": dict(config.options),
        "seed": config.seed,
        "epochs": len(fitted.history),
        "best_held_out_nlp": min(epoch.held_out_nlp for epoch in fitted.history),
        "seconds": round(seconds, 1),
        "epoch_seconds": round(sum(epoch.seconds for epoch in fitted.history), 1),
        **({"waited_seconds": round(fitted.seconds_waited, 2)} if prepared.streamed else {}),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
    }
