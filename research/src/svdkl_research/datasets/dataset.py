"""A data set, and how its rows are split: the same rows for every model."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.model_selection import KFold, train_test_split

Kind = Literal["classification", "regression"]
Array = npt.NDArray[np.generic]
Rows = npt.NDArray[np.int64]
Inputs = pa.Table | npt.NDArray[np.uint8]  # a table, or images (N, K, H, W)

NUM_FOLDS = 5
VALIDATION_SHARE = 0.1


@dataclass(frozen=True)
class Dataset:
    """A table, what is to be predicted from it, and which split its literature uses.

    Attributes
    ----------
    target
        Class numbers 0..C-1 (int64), or real values (float64).
    classes
        Names of the classes; empty for regression.
    test_fold
        For each row the fold in which it is a test row, if the set comes with folds.
    held_out_rows
        Number of random rows that are the test rows; 0 for five folds.
    """

    name: str
    table: pa.Table
    target: Array
    task: Kind
    classes: tuple[str, ...] = ()
    test_fold: Array | None = None
    held_out_rows: int = 0

    def take(self, rows: Rows) -> Inputs:
        """Return the inputs of some rows."""
        return self.table.take(pa.array(rows))


@dataclass(frozen=True)
class ImageSet:
    """Images of classes, with a published split.

    Attributes
    ----------
    images
        Pixels, shape (N, K, H, W) with K channels.
    target
        Class numbers 0..C-1.
    test_fold
        The only fold, 0, for test images and -1 for training images.
    """

    name: str
    images: npt.NDArray[np.uint8]
    target: Array
    classes: tuple[str, ...]
    test_fold: Array
    task: ClassVar[Kind] = "classification"
    held_out_rows: ClassVar[int] = 0

    def take(self, rows: Rows) -> Inputs:
        """Return the images of some rows."""
        return self.images[rows]


@dataclass(frozen=True)
class Split:
    """Indices of the training rows and of the test rows, ascending."""

    train: Rows
    test: Rows


def num_folds(dataset: Dataset | ImageSet) -> int | None:
    """Count the folds; None where each fold is a random draw of its own."""
    if dataset.held_out_rows:
        return None
    return NUM_FOLDS if dataset.test_fold is None else int(np.max(dataset.test_fold.astype(np.int64))) + 1


def split(dataset: Dataset | ImageSet, fold: int) -> Split:
    """Return the training and test rows of a fold.

    These are the set's own folds where it has some. With ``held_out_rows`` the test rows are drawn at random, seeded by
    the fold's number. Otherwise there are five shuffled folds.
    """
    folds = num_folds(dataset)
    if fold < 0 or (folds is not None and fold >= folds):
        upper = "" if folds is None else f" and below {folds}"
        raise ValueError(f"Expected a fold of {dataset.name} of at least 0{upper}, got {fold}.")
    rows = len(dataset.target)
    if dataset.test_fold is not None:
        return Split(np.flatnonzero(dataset.test_fold != fold), np.flatnonzero(dataset.test_fold == fold))
    if dataset.held_out_rows:
        if dataset.held_out_rows >= rows:
            raise ValueError(
                f"Expected more than {dataset.held_out_rows} rows in {dataset.name}, got {rows}: so many are held out."
            )
        order = np.random.default_rng(fold).permutation(rows).astype(np.int64)
        test, train = order[: dataset.held_out_rows], order[dataset.held_out_rows :]
        return Split(np.sort(train), np.sort(test))
    train, test = list(KFold(NUM_FOLDS, shuffle=True, random_state=0).split(np.empty(rows)))[fold]
    return Split(train.astype(np.int64), test.astype(np.int64))


def hold_out(dataset: Dataset | ImageSet, train: Rows, seed: int) -> tuple[Rows, Rows]:
    """Split training rows into rows to fit and a tenth of validation rows, stratified by class."""
    classes = dataset.target[train] if dataset.task == "classification" else None
    fit, validation = train_test_split(train, test_size=VALIDATION_SHARE, random_state=seed, stratify=classes)
    return np.sort(fit), np.sort(validation)
