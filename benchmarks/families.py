"""What a posterior family costs in accuracy: full Cholesky factors against banded ones and mean field, on two tables.

    python benchmarks/families.py [--data-dir DIR] [--rows N] [--epochs N] [--datasets adult diabetes]

Classifiers with default arguments except for the grid and the family, trained on the training part of fold 0 and scored
on its test part. On the short grid the prior's factors are Toeplitz, on the long one circulant. Every fit is written
down when it is done; a run with the same rows, epochs and seeds goes on from there.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import measure
import numpy as np

from svdkl import SVDKLClassifier
from svdkl.metrics.classification import accuracy, negative_log_probability
from svdkl_research.datasets import Dataset, load_dataset, split

DATASETS = ("adult", "diabetes")
GRIDS = (32, 400)
FAMILIES = ("cholesky", "banded", "mean_field")
NAME = "families"


def score_of_fit(dataset: Dataset, grid_size: int, family: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """One fit on fold 0: negative log probability and accuracy on its test rows, and how long it took."""
    fold = split(dataset, 0)
    train, test = fold.train, fold.test
    if settings["rows"] is not None:
        train = np.random.default_rng(0).permutation(train)[: settings["rows"]]
    epochs = {} if settings["epochs"] is None else {"max_iter": settings["epochs"]}
    model = SVDKLClassifier(grid_size=grid_size, posterior=family, random_state=seed, **epochs)
    start = time.perf_counter()
    model.fit(dataset.table.take(train), dataset.target[train])
    seconds = time.perf_counter() - start
    probabilities = model.predict_proba(dataset.table.take(test))
    labels = np.searchsorted(model.classes_, dataset.target[test])
    return {
        "nlp": negative_log_probability(probabilities, labels),
        "accuracy": accuracy(probabilities, labels),
        "seconds": seconds,
        "epochs": model.n_iter_,
        "rows": len(train),
        "test_rows": len(test),
    }


def finished(settings: dict[str, Any]) -> dict[str, Any]:
    """The fits of an earlier run with the same settings."""
    path = measure.RESULTS / f"{NAME}.json"
    if not path.exists():
        return {}
    earlier = json.loads(path.read_text())
    return dict(earlier["fits"]) if earlier["settings"] == settings else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--rows", type=int, help="training rows to take; all by default")
    parser.add_argument("--epochs", type=int, help="epochs of a fit; by default as many as the estimator takes")
    parser.add_argument("--seeds", type=int, default=1, help="fits of each kind, with seeds 0, 1, ...")
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    options = parser.parse_args()
    settings = {"rows": options.rows, "epochs": options.epochs}
    fits = finished(settings)
    for name in options.datasets:
        dataset = load_dataset(name, options.data_dir)
        assert isinstance(dataset, Dataset)
        for seed in range(options.seeds):
            for grid_size in GRIDS:
                for family in FAMILIES:
                    key = f"{name} grid={grid_size} {family} seed={seed}"
                    if key not in fits:
                        fits[key] = score_of_fit(dataset, grid_size, family, seed, settings)
                        measure.save(NAME, {"settings": settings, "fits": fits})
                    fit = fits[key]
                    print(f"{key:40s} NLP {fit['nlp']:.4f}  accuracy {fit['accuracy']:.4f}  {fit['seconds']:.0f} s")


if __name__ == "__main__":
    main()
