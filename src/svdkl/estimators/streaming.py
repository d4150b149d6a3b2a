"""Rows of Parquet files that are streamed: what is learned of them before a model is trained on them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from svdkl.estimators.building import choose_device, training_config
from svdkl.estimators.examples import Learned, encode, read_examples
from svdkl.estimators.fitting import TrainingSet, draw_seed, to_rows
from svdkl.estimators.options import Options
from svdkl.estimators.targets import Classes, Targets
from svdkl.estimators.weights import Weights, class_factors
from svdkl.tables.encoder import TabularEncoder
from svdkl.tables.parquet_files import ParquetFiles, chosen_names, values_of
from svdkl.tables.table import open_table
from svdkl.training.batches import Rows
from svdkl.training.distributed import joined
from svdkl.training.parquet_batches import EPOCH_ROWS, ParquetRows
from svdkl.training.parquet_survey import survey

KEPT_ROWS = 20_000  # of the sample, for the features' ranges: as many as training takes of a table in memory
FEWEST_ROWS = 1000  # smaller files fit into memory, and a streamed fit has to hold some rows out


def open_stream(
    options: Options,
    kind: type[Targets],
    path: str | Path,
    target: str,
    drop: Sequence[str] = (),
    epoch_rows: int | None = None,
) -> TrainingSet:
    """Survey Parquet files and return their rows, ready to be streamed.

    Parameters
    ----------
    kind
        Whether targets are classes or real numbers.
    target, drop
        The column to predict, and columns that are left out.
    epoch_rows
        Rows of an epoch, about.
    """
    if options.net is not None:
        raise ValueError("Expected net=None for a streamed table, got a network: tables have columns of all kinds.")
    files = ParquetFiles(path)
    chosen_names(files.path, files.names, [target, *drop])
    features = [name for name in files.names if name != target and name not in drop]
    if files.num_rows < FEWEST_ROWS:
        raise ValueError(
            f"Expected at least {FEWEST_ROWS:,} rows to stream, got {files.num_rows:,} in {files.path}: read them into "
            f"memory and use fit."
        )
    seed = draw_seed(options)
    columns = [*features, target]
    fraction = float(options.validation_fraction) if options.holds_out else 0.0
    by_class = kind is Classes
    found = survey(files, columns, target, fraction, seed, joined(), count_targets=by_class)

    labels = np.array(list(found.targets)) if by_class else None
    sample, learned = read_examples(
        replace(options, class_weight=None),  # what a class weighs depends on all rows, not on the sample
        kind,
        found.sample.select(features),
        values_of(found.sample, target),
        labels=labels,
    )
    learned = learned._replace(targets=learned.targets.scaled_to(sample.y, sample.weight))
    encoder = TabularEncoder().fit(sample.X, sample.y, learned.targets.task)
    factors = _class_factors(options, learned.targets, found.targets)
    if factors is not None:
        sample = replace(sample, weight=factors[sample.y])
    to_batch = partial(_to_batch, learned, encoder, features, target, factors)
    some = np.sort(np.random.default_rng(seed).permutation(len(sample))[:KEPT_ROWS])
    source = ParquetRows(
        files,
        columns,
        to_batch,
        found.held_positions,
        sample=to_rows(options, learned, encoder, sample.take(some)),
        epoch_rows=epoch_rows or EPOCH_ROWS,
        seed=seed,
        device=choose_device(options.device),
        num_workers=joined().size,
    )
    holds_out = len(found.held_out) > 0
    held = to_batch(found.held_out) if holds_out else to_rows(options, learned, encoder, sample)
    config = training_config(options, learned.targets.task, source.num_rows, holds_out, seed, source.epoch_rows)
    return TrainingSet(options, learned, encoder, source, held.to(source.device), holds_out, config)


def _class_factors(options: Options, targets: Targets, counts: dict[Any, int]) -> Weights | None:
    """Return what the rows of each class weigh, by the classes of all rows."""
    if options.class_weight is None or not isinstance(targets, Classes):
        return None
    amounts = np.array([counts[label] for label in targets.labels.tolist()], np.float64)
    return class_factors(options.class_weight, targets.labels, amounts)


def _to_batch(
    learned: Learned,
    encoder: TabularEncoder,
    features: list[str],
    target: str,
    factors: Weights | None,
    table: pa.Table,
) -> Rows:
    """Turn a part of the files into rows to train on."""
    y = learned.targets.encode(values_of(table, target))
    weight = None if factors is None else torch.tensor(factors[y], dtype=torch.float32)
    x = encode(encoder, open_table(table.select(features)))
    return Rows(x, learned.targets.to_tensor(y), weight)
