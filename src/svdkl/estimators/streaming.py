"""A fit to Parquet files that are streamed: what an estimator learns of them before it trains."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from svdkl.estimators.examples import Given, class_factors
from svdkl.estimators.options import choose_device, holds_out, training_config
from svdkl.tables.encoder import TabularEncoder
from svdkl.tables.parquet_files import ParquetFiles, chosen_names, plain_column
from svdkl.training.batches import Rows
from svdkl.training.distributed import joined
from svdkl.training.parquet_batches import ParquetRows
from svdkl.training.parquet_survey import survey

KEPT_ROWS = 20_000  # of the sample, for whatever is to be set by the data
FEWEST_ROWS = 1000  # smaller files fit into memory, and a streamed fit has to hold some rows out


class StreamedTable:
    """Rows of a file as an estimator's training takes them; the estimator gets its encoder, classes and scales here.

    Attributes
    ----------
    source, held_out, config
        For the training.
    """

    def __init__(self, estimator: Any, path: Any, target: str, drop: Sequence[str], epoch_rows: int) -> None:
        if estimator.net is not None:
            raise ValueError("Expected net=None for a streamed table, got a network: tables have columns of all kinds.")
        files = ParquetFiles(path)
        chosen_names(files.path, files.names, [target, *drop])
        features = [name for name in files.names if name != target and name not in drop]
        if files.num_rows < FEWEST_ROWS:
            raise ValueError(
                f"Expected at least {FEWEST_ROWS:,} rows to stream, got {files.num_rows:,} in {files.path}: read them "
                f"into memory and use fit."
            )
        by_class = estimator._task == "classification"
        seed = estimator._seed()
        columns = [*features, target]
        fraction = estimator.validation_fraction if holds_out(estimator) else 0.0
        found = survey(files, columns, target, float(fraction), seed, joined(), count_targets=by_class)

        labels = np.array(list(found.targets)) if by_class else None
        sample = estimator._read(found.sample.select(features), target_of(found.sample, target), None, True, labels)
        self._estimator, self._features, self._target = estimator, features, target
        self._factors = None
        if by_class and estimator.class_weight is not None:
            amounts = np.array([found.targets[label] for label in estimator.classes_.tolist()], np.float64)
            self._factors = class_factors(estimator.class_weight, estimator.classes_, amounts)
        estimator._set_scale(sample)
        estimator.encoder_ = TabularEncoder().fit(sample.X, sample.y, estimator._task)
        estimator.history_ = []
        held = self._rows(found.held_out) if len(found.held_out) else None
        some = np.sort(np.random.default_rng(seed).permutation(len(sample.y))[:KEPT_ROWS])
        self.source = ParquetRows(
            files,
            columns,
            self._rows,
            found.held_positions,
            sample=estimator._rows(sample.take(some)),
            epoch_rows=epoch_rows,
            seed=seed,
            device=choose_device(estimator.device),
            num_workers=joined().size,
        )
        estimator.num_rows_seen_ = self.source.num_rows
        self.config = training_config(estimator, self.source.num_rows, held is not None, seed, self.source.epoch_rows)
        kept = held if held is not None else estimator._rows(sample)
        self.held_out = kept.to(self.source.device)

    def _rows(self, table: pa.Table) -> Rows:
        estimator = self._estimator
        given = Given(
            table.select(self._features), estimator._read_targets(target_of(table, self._target), reset=False), None
        )
        weight = None if self._factors is None else self._factors[given.y]
        x, y = estimator._encode(given.X), estimator._as_tensor(given.y)
        return Rows(x, y, None if weight is None else torch.tensor(weight, dtype=torch.float32))


def target_of(table: pa.Table, target: str) -> Any:
    """The target column as an array."""
    return plain_column(table.column(target)).to_numpy()
