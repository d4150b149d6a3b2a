"""What a Gaussian process head adds to an epoch and to predictions on a large table, and what reading a table costs.

``python benchmarks/tables.py`` needs the files of Covertype and the flights (``SVDKL_DATA`` or ``--data-dir``).
"""

import argparse
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import measure
import pyarrow as pa

from svdkl import SVDKLClassifier
from svdkl.tables.encoder import TabularEncoder
from svdkl_research.datasets import load_dataset, split

EPOCHS = 6  # four of the network, two joint
JOINT_LIMIT, ENCODING_LIMIT = 1.25, 0.1  # shares of an epoch of the network alone
PREDICTION_LIMIT = 1.2  # of the network's predictions
ROUNDS = 7


def epochs_and_predictions(data_dir: Path | None, num_epochs: int) -> dict[str, Any]:
    """One fit with defaults on the training part of Covertype, and predictions of the test part."""
    dataset = load_dataset("covertype", data_dir)
    rows = split(dataset, 0)
    table, target = dataset.table.take(rows.train), dataset.target[rows.train]
    model = SVDKLClassifier(random_state=0, max_iter=num_epochs, evidence=False, n_iter_no_change=num_epochs)
    model.fit(table, target)
    network = SVDKLClassifier(recipe="dnn", random_state=0, max_iter=1).fit(table, target)
    joint = _joint(model, len(target))
    return {"joint": joint, "prediction": _predictions(model, network, dataset.table.take(rows.test))}


def _joint(model: SVDKLClassifier, num_rows: int) -> dict[str, Any]:
    """Seconds of each epoch."""
    seconds = {
        stage: [epoch.seconds for epoch in model.history_ if epoch.stage == stage] for stage in ("network", "joint")
    }
    ratio = statistics.median(seconds["joint"]) / statistics.median(seconds["network"])
    print(f"Covertype, {num_rows:,} rows: joint epoch / epoch of the network = {ratio:.3f} (limit {JOINT_LIMIT})")
    return {"rows": num_rows, "seconds": seconds, "ratio": ratio, "limit": JOINT_LIMIT}


def _predictions(model: SVDKLClassifier, network: SVDKLClassifier, table: pa.Table) -> dict[str, Any]:
    """Probabilities of all rows by each, in turns."""
    predictors = {"network": partial(network.predict_proba, table), "svdkl": partial(model.predict_proba, table)}
    seconds = measure.interleaved(predictors, ROUNDS)
    ratio = measure.ratios(seconds, "network")["svdkl"]["ratio"]
    per_second = table.num_rows / statistics.median(seconds["svdkl"])
    print(
        f"Covertype, {table.num_rows:,} rows: prediction / prediction of the network = {ratio:.3f} (limit "
        f"{PREDICTION_LIMIT}), {per_second:,.0f} rows a second"
    )
    return {"rows": table.num_rows, "seconds": seconds, "ratio": ratio, "limit": PREDICTION_LIMIT}


def encoding(data_dir: Path | None) -> dict[str, Any]:
    """Fit and transform of the flights, against one epoch of the network on them."""
    dataset = load_dataset("flights", data_dir)
    train = split(dataset, 0).train
    table, target = dataset.table.take(train), dataset.target[train]
    start = time.perf_counter()
    TabularEncoder().fit(table, target, "classification").transform(table)
    encoded = time.perf_counter() - start
    model = SVDKLClassifier(recipe="dnn", random_state=0, max_iter=1).fit(table, target)
    epoch = model.history_[0].seconds
    print(
        f"Flights, {len(train):,} rows: encoding {encoded:.1f} s, an epoch {epoch:.1f} s, share {encoded / epoch:.3f} "
        f"(limit {ENCODING_LIMIT})"
    )
    share = encoded / epoch
    return {"rows": len(train), "encoding": encoded, "epoch": epoch, "share": share, "limit": ENCODING_LIMIT}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    result = {**epochs_and_predictions(options.data_dir, options.epochs), "encoding": encoding(options.data_dir)}
    measure.save("tables", result)


if __name__ == "__main__":
    main()
