"""SVHN: digits of house numbers, 73,257 training and 26,032 test pictures of 32 x 32 pixels in colour.

Read from the published ``train_32x32.mat`` and ``test_32x32.mat``, in the data folder or in its folder ``svhn``. There
are no results on this set: no copy of it could be had.
"""

from pathlib import Path

import numpy as np

from svdkl_research.datasets.dataset import ImageSet
from svdkl_research.datasets.files import data_folder
from svdkl_research.datasets.image_files import Part, check_part, join_parts, missing_images, unreadable

SHAPE = (3, 32, 32)
DIGITS = tuple("0123456789")
TRAIN_COUNTS = (4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659)
TEST_COUNTS = (1744, 5099, 4149, 2882, 2523, 2384, 1977, 2019, 1660, 1595)
ADDRESS = "http://ufldl.stanford.edu/housenumbers/"


def locate_svhn(data_dir: Path | None = None, download: bool = False) -> list[Path]:
    """Find the files of the training and test pictures."""
    folder = data_folder(data_dir)
    for own in (folder / "svhn", folder):
        paths = [own / f"{part}_32x32.mat" for part in ("train", "test")]
        if all(path.is_file() for path in paths):
            return paths
    raise missing_images("SVHN", "train_32x32.mat and test_32x32.mat", folder, ADDRESS)


def load_svhn(data_dir: Path | None = None, download: bool = False) -> ImageSet:
    """Load the cropped digits with their published split, without the 531,131 easier extra pictures."""
    train, test = (_read(path) for path in locate_svhn(data_dir, download))
    train = check_part("svhn", *train, SHAPE, TRAIN_COUNTS)
    return join_parts("svhn", train, check_part("svhn", *test, SHAPE, TEST_COUNTS), DIGITS)


def _read(path: Path) -> Part:
    """Read one file, where X has shape (32, 32, 3, N) and y is 10 for the digit 0."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        found = loadmat(path, variable_names=["X", "y"])
        images, labels = found["X"].transpose(3, 2, 0, 1), found["y"].reshape(-1).astype(np.int64)
    except (LookupError, OSError, ValueError, TypeError, EOFError, MatReadError, NotImplementedError) as error:
        raise unreadable(path, error) from error
    return np.ascontiguousarray(images), labels % 10
