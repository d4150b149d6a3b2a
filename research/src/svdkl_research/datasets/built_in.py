"""Two small sets that come with scikit-learn, to try everything without any file."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.model_selection import KFold

from svdkl_research.datasets.dataset import NUM_FOLDS, Dataset


def load_tumours(data_dir: Path | None = None, download: bool = False) -> Dataset:
    """Load Breast Cancer Wisconsin: 569 rows of 30 numbers, two classes."""
    bunch = load_breast_cancer()
    table = pa.table({str(name): column for name, column in zip(bunch.feature_names, bunch.data.T)})
    classes = tuple(str(name) for name in bunch.target_names)
    return Dataset("tumours", table, bunch.target.astype(np.int64), "classification", classes)


def load_progression(data_dir: Path | None = None, download: bool = False) -> Dataset:
    """Load the progression of diabetes after a year: 442 rows of 10 numbers."""
    bunch = load_diabetes(scaled=False)
    table = pa.table({str(name): column for name, column in zip(bunch.feature_names, bunch.data.T)})
    fold = np.empty(table.num_rows, dtype=np.int64)
    for number, (_, test) in enumerate(KFold(NUM_FOLDS, shuffle=True, random_state=0).split(bunch.data)):
        fold[test] = number
    return Dataset("progression", table, bunch.target.astype(np.float64), "regression", test_fold=fold)
