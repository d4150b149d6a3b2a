"""What a Gaussian process head adds to an epoch on a large table, and what reading a table costs beside an epoch.

``python benchmarks/tables.py`` needs the files of Covertype and the flights (``SVDKL_DATA`` or ``--data-dir``).
"""

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import measure

from svdkl import SVDKLClassifier
from svdkl.experiments.datasets import load_dataset, split
from svdkl.tabular.encoder import TabularEncoder

EPOCHS = 6  # four of the network, two joint
JOINT_LIMIT, ENCODING_LIMIT = 1.25, 0.1  # shares of an epoch of the network alone


def joint_epochs(data_dir: Path | None, num_epochs: int) -> dict[str, Any]:
    """One fit with defaults on the training part of Covertype: seconds of each epoch."""
    dataset = load_dataset("covertype", data_dir)
    train = split(dataset, 0).train
    model = SVDKLClassifier(random_state=0, max_iter=num_epochs, evidence=False, n_iter_no_change=num_epochs)
    model.fit(dataset.table.take(train), dataset.target[train])
    seconds = {
        stage: [epoch.seconds for epoch in model.history_ if epoch.stage == stage] for stage in ("network", "joint")
    }
    ratio = statistics.median(seconds["joint"]) / statistics.median(seconds["network"])
    print(f"Covertype, {len(train):,} rows: joint epoch / epoch of the network = {ratio:.3f} (limit {JOINT_LIMIT})")
    return {"rows": len(train), "seconds": seconds, "ratio": ratio, "limit": JOINT_LIMIT}


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
    result = {"joint": joint_epochs(options.data_dir, options.epochs), "encoding": encoding(options.data_dir)}
    measure.save("tables", result)


if __name__ == "__main__":
    main()
