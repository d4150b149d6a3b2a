"""How well scores of strangeness tell classes that a model was not shown, on training images alone.

    python benchmarks/left_out_classes.py [--data-dir DIR] [--rows N]

Two classes at a time are kept out of a short training of SV-DKL; then rows of them stand beside rows of the others that
were not fitted to. This is where the form of ``ood_score`` was chosen: no test image and no other set is looked at.
"""

import argparse
from pathlib import Path
from typing import Any

import measure
import numpy as np

from svdkl_research.datasets import ImageSet, load_dataset, split
from svdkl_research.rivals.image_networks import ImageClassifier
from svdkl_research.suites.task import tell_apart

LEFT_OUT = {"mnist": ((8, 9), (0, 1), (3, 5)), "cifar10": ((0, 1), (3, 5))}
EPOCHS = {"mnist": 3, "cifar10": 5}
JUDGED = 3000  # rows of each kind, and as many validation rows


def scores_without(dataset: ImageSet, classes: tuple[int, ...], rows: int) -> dict[str, Any]:
    """AUROC and FPR95 of each score of a model that was shown all other classes."""
    order = np.random.default_rng(0).permutation(split(dataset, 0).train)
    labels = dataset.target.astype(np.int64)
    strange = np.isin(labels[order], classes)
    fit, validation, usual = np.split(order[~strange], [rows, rows + JUDGED])
    _, known = np.unique(labels[order[~strange]], return_inverse=True)  # labels from 0 on, without gaps
    model = ImageClassifier(dataset.name, EPOCHS[dataset.name], recipe="svdkl")
    own = known[:rows], known[rows : rows + JUDGED]
    model.fit(dataset.take(fit), own[0], dataset.take(validation), own[1], seed=0)
    inside, outside = (dataset.take(part[:JUDGED]) for part in (usual, order[strange]))
    right = model.predict_proba(inside).argmax(1) == known[rows + JUDGED : rows + 2 * JUDGED]
    return {"accuracy": float(right.mean()), **tell_apart(model.ood_scores(inside), model.ood_scores(outside))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--rows", type=int, default=15_000, help="to fit")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for name, choices in LEFT_OUT.items():
        dataset = load_dataset(name, options.data_dir)
        assert isinstance(dataset, ImageSet)
        for classes in choices:
            key = f"{name} without {' and '.join(dataset.classes[place] for place in classes)}"
            found[key] = scores_without(dataset, classes, options.rows)
            measure.save("left_out_classes", {"rows": options.rows, "epochs": EPOCHS, "sets": found})
            shown = (f"{what} {value:.3f}" for what, value in found[key].items() if "auroc" in what)
            print(f"{key:40s} {', '.join(shown)}", flush=True)


if __name__ == "__main__":
    main()
