"""Estimate what a fit would do and cost from a sample of its rows: the real recipe runs on a few of them."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from svdkl.estimators.building import build_head, build_net, network_options, training_config
from svdkl.estimators.examples import FEWEST_HELD_OUT, Examples, TableLike, read_examples
from svdkl.estimators.fitting import TRIED, to_rows, trial_epochs
from svdkl.estimators.options import Options
from svdkl.estimators.run import Prepared
from svdkl.estimators.targets import Classes, Targets
from svdkl.gp.groups import lattice_sizes
from svdkl.gp.head_protocol import Head
from svdkl.gp.memory import COPIES, estimate_bytes
from svdkl.model import SVDKL
from svdkl.tables.encoder import TabularEncoder
from svdkl.tables.parquet_files import plain_column, values_of
from svdkl.tables.schema import encoding_in_words
from svdkl.tables.table import Table
from svdkl.training.batches import Rows
from svdkl.training.config import JOINT, NETWORK, WITH_HEAD, TrainingConfig
from svdkl.training.evidence import fit_held_out_evidence, rows_of_a_step
from svdkl.training.history import History
from svdkl.training.parquet_batches import AHEAD, BUFFER_ROWS, EPOCH_ROWS
from svdkl.training.parquet_survey import MOST_HELD_OUT, SAMPLE_ROWS
from svdkl.training.recipe import train

LOOKED_AT = 100_000  # rows from the beginning of the table, in whose columns a plan looks
TRIAL_STEPS = 4  # of an epoch: enough to average over, and few enough to take no time
TRIAL_EPOCHS = 2  # of a stage; the first also compiles and is not counted
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
    """A plan of a fit.

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


def plan_run(prepared: Prepared) -> dict[str, Any]:
    """Say what a run would do and cost, with the targets of all rows and the columns of a sample."""
    target, kind = prepared.config.target, prepared.kind
    by_class = kind is Classes
    rows, counts = 0, Counter[Any]()
    for column in prepared.target_parts():
        rows += len(column)
        if by_class:
            entries = plain_column(column).value_counts().to_pylist()
            counts.update({entry["values"]: entry["counts"] for entry in entries})
    if prepared.streamed:
        sample = next(prepared.file.batches([*prepared.features, target], LOOKED_AT))
    else:
        sample = prepared.table.select([*prepared.features, target]).slice(0, LOOKED_AT)
    plan = plan_fit(
        prepared.options,
        kind,
        sample.select(prepared.features),
        values_of(sample, target),
        rows,
        (prepared.config.epoch_rows or EPOCH_ROWS) if prepared.streamed else None,
        list(counts) if by_class else None,
    )
    table_bytes = 0 if prepared.streamed else round(sample.nbytes / sample.num_rows * rows)
    return {
        "data": str(prepared.config.data),
        "rows": rows,
        "rows_looked_at": sample.num_rows,
        "streamed": prepared.streamed,
        "target": target,
        "task": kind.task,
        "classes": dict(counts.most_common()) if by_class else None,
        **asdict(plan),
        "memory": plan.memory + table_bytes,
    }


def plan_fit(
    options: Options,
    kind: type[Targets],
    X: TableLike,
    y: object,
    num_rows: int,
    epoch_rows: int | None = None,
    labels: Sequence[Any] | None = None,
) -> Plan:
    """Say what ``fit`` would do with so many rows that are like those of a sample.

    Parameters
    ----------
    kind
        Whether targets are classes or real numbers.
    X, y
        The sample.
    epoch_rows
        Rows of an epoch of a table that is streamed; None for one in memory.
    labels
        All labels, if the sample may lack some.
    """
    examples, learned = read_examples(options, kind, X, y, labels=labels)
    targets = learned.targets.scaled_to(examples.y, examples.weight)
    learned = learned._replace(targets=targets)
    encoder = TabularEncoder().fit(examples.X, examples.y, targets.task)
    held_out = _held_out(options, num_rows)
    held_rows = num_rows
    if epoch_rows is not None:
        held_out = min(held_out, MOST_HELD_OUT)
        epoch_rows = min(epoch_rows, num_rows - held_out)
        held_rows = min(num_rows, SAMPLE_ROWS + MOST_HELD_OUT + (AHEAD + 2) * BUFFER_ROWS)
    rows = num_rows - held_out
    config = training_config(options, targets.task, rows, held_out > 0, 0, epoch_rows)
    network = network_options(options, targets.task, rows)
    net, num_features = build_net(options, encoder.layout, network, options.num_features, targets.num_outputs)
    head = build_head(options, num_features, targets.num_outputs, targets.likelihood)
    tried = len(TRIED) * trial_epochs(options, targets.task, rows, config) if held_out and epoch_rows is None else 0
    sample = to_rows(options, learned, encoder, examples)
    parameters, seconds = _trial(net, head, sample, config, epoch_rows or rows, held_out, tried)
    inputs = len(encoder.layout)
    return Plan(
        columns=_columns(examples, encoder),
        rows_to_fit=rows,
        held_out=held_out,
        epochs=config.epochs_in_all,
        batch_size=config.batch_size,
        inputs=inputs,
        parameters=parameters,
        memory=_memory(options, config, network, num_features, parameters, inputs, held_rows),
        seconds=seconds,
    )


def _held_out(options: Options, num_rows: int) -> int:
    held_out = round(float(options.validation_fraction) * num_rows)
    return held_out if options.holds_out and held_out >= FEWEST_HELD_OUT else 0


def _trial(
    net: nn.Module, head: Head, sample: Rows, config: TrainingConfig, rows: int, held_out: int, tried: int
) -> tuple[int, float]:
    """Return the parameters of the model, and the seconds that all epochs would take by those of a few steps.

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
    history = History()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = train(net, head, fit, scored, short, history=history)
    seconds = 0.0
    epochs = {JOINT: config.joint_epochs, NETWORK: config.network_epochs + tried}
    for stage in {epoch.stage for epoch in history.epochs}:
        seconds += min(epoch.seconds for epoch in history.of(stage)) / size * rows * epochs[stage]
    if config.evidence and config.recipe in WITH_HEAD:
        at_most = rows_of_a_step(model.gp_head, config.evidence_config)
        numbers = torch.arange(min(held_out, at_most)) % len(sample)
        seconds += _seconds_of_evidence(model, sample.take(numbers), config)
    return sum(p.numel() for p in model.parameters()), seconds


def _seconds_of_evidence(model: SVDKL, rows: Rows, config: TrainingConfig) -> float:
    short = replace(config, evidence_config=replace(config.evidence_config, steps=TRIAL_STEPS))
    start = time.perf_counter()
    fit_held_out_evidence(model, rows, short, torch.Generator().manual_seed(0))
    return (time.perf_counter() - start) / TRIAL_STEPS * config.evidence_config.steps


def _memory(
    options: Options,
    config: TrainingConfig,
    network: dict[str, Any],
    num_features: int,
    parameters: int,
    inputs: int,
    held_rows: int,
) -> int:
    """Add up the bytes of the encoded rows, of the parameters with the optimiser's moments, and of one step."""
    layers = sum(network["hidden"]) + options.num_features + 64 * inputs
    largest = max(config.batch_size, (config.joint_batch_size or 0) if options.has_gps else 0)
    step = FLOAT * LIVE_COPIES * min(largest, held_rows) * layers
    encoded = FLOAT * inputs * held_rows
    if options.has_gps:
        dims = options.dims_per_gp
        step += estimate_bytes(num_features // dims, lattice_sizes(options.grid_size, dims), options.posterior)
    return encoded + FLOAT * COPIES * parameters + step


def _columns(examples: Examples, encoder: TabularEncoder) -> tuple[ColumnPlan, ...]:
    table = examples.X
    assert isinstance(table, Table)
    plans = []
    for i, schema in enumerate(encoder.schema.columns):
        column = table.column(i)
        present = column.values if column.missing is None else column.values[~column.missing]
        missing = len(column.values) - len(present)
        encoding = encoding_in_words(schema, encoder.max_onehot)
        plans.append(ColumnPlan(schema.name, schema.kind, missing, len(np.unique(present)), encoding))
    return tuple(plans)
