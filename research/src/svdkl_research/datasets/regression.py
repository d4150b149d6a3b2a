"""UCI regression sets with ten given folds: columns x0, x1, ..., the target y, and test_fold from 0 to 9."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from svdkl_research.datasets.dataset import Dataset
from svdkl_research.datasets.files import (
    check_columns,
    check_size,
    data_folder,
    find_file,
    missing_file,
    not_the_table,
    read_table,
)

FOLDS = 10
ADDRESS = "sets and folds of https://github.com/treforevans/uci_datasets as Parquet with columns x0, ..., y, test_fold"
SIZES = {  # rows, features
    "airfoil": (1_503, 5),
    "autompg": (392, 7),
    "bike": (17_379, 17),
    "concrete": (1_030, 8),
    "elevators": (16_599, 18),
    "energy": (768, 8),
    "gas": (2_565, 128),
    "housing": (506, 13),
    "keggdirected": (48_827, 20),
    "kin40k": (40_000, 8),
    "pol": (15_000, 26),
    "sml": (4_137, 26),
    "stock": (536, 11),
    "tamielectric": (45_781, 3),
    "yacht": (308, 6),
}


def locate_regression(name: str, data_dir: Path | None = None, download: bool = False) -> Path:
    """Find the file of a set in the folder ``uci_regression``."""
    folder = data_folder(data_dir) / "uci_regression"
    path = find_file(name, folder)
    if path is None:
        raise missing_file(name, folder, ADDRESS)
    return path


def load_regression(name: str, data_dir: Path | None = None, download: bool = False) -> Dataset:
    """Load one of the regression sets with its ten folds."""
    path = locate_regression(name, data_dir, download)
    rows, features = SIZES[name]
    table = read_table(path)
    names = tuple(f"x{i}" for i in range(features))
    check_columns(name, table, (*names, "y", "test_fold"))
    check_size(name, table, rows, features + 2)
    try:
        y, folds = table.column("y").cast(pa.float64()), table.column("test_fold").cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise not_the_table(name, path, error) from error
    target, fold = y.to_numpy(), folds.to_numpy()  # in which a null is NaN
    if not np.isfinite(target).all():
        raise ValueError(
            f"Expected a number in y of every row of {path}, got {(~np.isfinite(target)).sum()} row(s) without one."
        )
    if not np.array_equal(np.unique(fold), np.arange(FOLDS)):
        raise ValueError(f"Expected the folds 0 to {FOLDS - 1} in test_fold of {path}, got {np.unique(fold).tolist()}.")
    return Dataset(name, table.select(names), target, "regression", test_fold=fold)
