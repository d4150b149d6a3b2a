"""What a fit would do and cost, told from a sample of its rows: the real recipe runs on a few of them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from svdkl.estimators.examples import FEWEST_HELD_OUT
from svdkl.estimators.fitting import TRIED, trial_epochs
from svdkl.estimators.options import (
    build_net,
    check_parameters,
    has_head,
    head_options,
    holds_out,
    network_options,
    training_config,
)
from svdkl.gp.memory import COPIES, estimate_bytes
from svdkl.model import SVDKL
from svdkl.tables.encoder import TabularEncoder
from svdkl.tables.schema import encoding_in_words
from svdkl.tables.table import open_table
from svdkl.training.batches import Rows
from svdkl.training.config import JOINT, NETWORK, TrainingConfig
from svdkl.training.evidence import fit_held_out_evidence, rows_of_a_step
from svdkl.training.history import History
from svdkl.training.parquet_batches import AHEAD, BUFFER_ROWS
from svdkl.training.parquet_survey import MOST_HELD_OUT, SAMPLE_ROWS
from svdkl.training.recipe import train

TRIAL_STEPS, TRIAL_EPOCHS = 4, 2  # of a stage; its first epoch also compiles and is not counted
FLOAT = 4  # bytes
LIVE_COPIES = 3  # of a layer's output, at the peak of a step: itself, its activation, its gradient


@dataclass(frozen=True)
class ColumnPlan:
    """A column as it is understood; counts are of the sample."""

    name: str
    kind: str
    missing: int
    distinct: int
    encoding: str


@dataclass(frozen=True)
class Plan:
    """What a fit would do.

    Attributes
    ----------
    rows_to_fit, held_out, epochs, batch_size
        Rows to fit and to hold out, epochs at most, and rows of a step.
    inputs, parameters
        Numbers of an encoded row, and of the model.
    memory, seconds
        Bytes beside the table itself, and time for all epochs.
    """

    columns: tuple[ColumnPlan, ...]
    rows_to_fit: int
    held_out: int
    epochs: int
    batch_size: int
    inputs: int
    parameters: int
    memory: int
    seconds: float


def plan_fit(
    estimator: Any, X: Any, y: Any, num_rows: int, epoch_rows: int | None = None, classes: Sequence[Any] | None = None
) -> Plan:
    """What ``fit`` would do with so many rows that are like those of a sample.

    Parameters
    ----------
    estimator
        With its parameters, not fitted; it is not to be used afterwards.
    X, y
        The sample.
    epoch_rows
        Rows of an epoch of a table that is streamed; None for one in memory.
    classes
        All labels, if the sample may lack some.
    """
    check_parameters(estimator)
    given = estimator._read(X, y, None, reset=True, classes=classes)
    estimator._set_scale(given)
    encoder = estimator.encoder_ = TabularEncoder().fit(given.X, given.y, estimator._task)
    held_out = _held_out(estimator, num_rows)
    held_rows = num_rows
    if epoch_rows is not None:
        held_out = min(held_out, MOST_HELD_OUT)
        epoch_rows = min(epoch_rows, num_rows - held_out)
        held_rows = min(num_rows, SAMPLE_ROWS + MOST_HELD_OUT + (AHEAD + 2) * BUFFER_ROWS)
    rows = num_rows - held_out
    config = training_config(estimator, rows, held_out > 0, 0, epoch_rows)
    estimator.num_features_ = int(estimator.num_features)
    estimator.network_options_ = network_options(estimator, rows)
    tried = len(TRIED) * trial_epochs(estimator, rows, config) if held_out and epoch_rows is None else 0
    parameters, seconds = _trial(estimator, estimator._rows(given), config, epoch_rows or rows, held_out, tried)
    inputs = len(encoder.layout)
    return Plan(
        columns=_columns(X, encoder),
        rows_to_fit=rows,
        held_out=held_out,
        epochs=config.epochs_in_all,
        batch_size=config.batch_size,
        inputs=inputs,
        parameters=parameters,
        memory=_memory(estimator, config, parameters, inputs, held_rows),
        seconds=seconds,
    )


def _held_out(estimator: Any, num_rows: int) -> int:
    held_out = round(float(estimator.validation_fraction) * num_rows)
    return held_out if holds_out(estimator) and held_out >= FEWEST_HELD_OUT else 0


def _trial(
    estimator: Any, sample: Rows, config: TrainingConfig, rows: int, held_out: int, tried: int
) -> tuple[int, float]:
    """Parameters of the model, and the seconds that all epochs would take: those of a few steps, times their number.

    Before the run itself, networks with other encodings may be tried for some epochs.
    """
    size = min(TRIAL_STEPS * config.batch_size, rows)
    fit = sample.take(torch.arange(size) % len(sample))
    scored = fit.take(slice(0, max(1, size * held_out // rows)))
    short = replace(
        config,
        pretrain_epochs=min(TRIAL_EPOCHS, config.pretrain_epochs),
        joint_epochs=min(TRIAL_EPOCHS, config.joint_epochs),
        evidence=False,
    )
    history, outputs, layout = History(), estimator._num_outputs, estimator.encoder_.layout
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, num_features = build_net(estimator, layout, estimator.num_features_, outputs)
        model = train(
            net, num_features, outputs, estimator._likelihood(), fit, scored, short, head_options(estimator), history
        )
    seconds = 0.0
    epochs = {JOINT: config.joint_epochs, NETWORK: config.network_epochs + tried}
    for stage in {epoch.stage for epoch in history.epochs}:
        seconds += min(epoch.seconds for epoch in history.of(stage)) / size * rows * epochs[stage]
    if config.evidence and isinstance(model, SVDKL):
        numbers = torch.arange(min(held_out, rows_of_a_step(model.head))) % len(sample)
        seconds += _seconds_of_evidence(model, sample.take(numbers), config)
    return sum(p.numel() for p in model.parameters()), seconds


def _seconds_of_evidence(model: SVDKL, rows: Rows, config: TrainingConfig) -> float:
    start = time.perf_counter()
    fit_held_out_evidence(model, rows, replace(config, evidence_steps=TRIAL_STEPS), torch.Generator().manual_seed(0))
    return (time.perf_counter() - start) / TRIAL_STEPS * config.evidence_steps


def _memory(estimator: Any, config: TrainingConfig, parameters: int, inputs: int, held_rows: int) -> int:
    """Bytes of the encoded rows, the parameters with the optimiser's moments, and one step."""
    layers = sum(estimator.network_options_["hidden"]) + estimator.num_features_ + 64 * inputs
    largest = max(config.batch_size, (config.joint_batch_size or 0) if has_head(estimator) else 0)
    step = FLOAT * LIVE_COPIES * min(largest, held_rows) * layers
    encoded = FLOAT * inputs * held_rows
    if has_head(estimator):
        features = estimator._num_outputs if estimator.gps == "outputs" else estimator.num_features_
        dims = int(estimator.dims_per_gp)
        step += estimate_bytes(features // dims, (int(estimator.grid_size),) * dims, estimator.posterior)
    return encoded + FLOAT * COPIES * parameters + step


def _columns(X: Any, encoder: TabularEncoder) -> tuple[ColumnPlan, ...]:
    table = open_table(X)
    plans = []
    for i, schema in enumerate(encoder.schema.columns):
        column = table.column(i)
        present = column.values if column.missing is None else column.values[~column.missing]
        missing = len(column.values) - len(present)
        encoding = encoding_in_words(schema, encoder.max_onehot)
        plans.append(ColumnPlan(schema.name, schema.kind, missing, len(np.unique(present)), encoding))
    return tuple(plans)
