"""MNIST, the same digits as odd and even, and notMNIST, letters in their place: 28 x 28 grey pixels.

Each is read from one file of arrays (``mnist.npz``, as Keras has it, ``notmnist_test.npz``), or from a folder with
files of MNIST's own format.
"""

import zipfile
from pathlib import Path

import numpy as np

from svdkl_research.datasets.dataset import ImageSet
from svdkl_research.datasets.files import data_folder
from svdkl_research.datasets.image_files import TEST, Part, check_part, join_parts, missing_images, read_idx, unreadable

SHAPE = (1, 28, 28)
DIGITS = tuple("0123456789")
LETTERS = tuple("ABCDEFGHIJ")
TRAIN_COUNTS = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
TEST_COUNTS = (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009)
LETTER_COUNTS = (1000,) * 10
PARTS = ("train", "test")
FOLDERS = ("mnist", "MNIST/raw")  # the second is where torchvision keeps them
MNIST_ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist/"
NOTMNIST_ADDRESS = "https://github.com/davidflanagan/notMNIST-to-MNIST"

Files = tuple[Path, ...]  # one file of arrays, or a file of images and a file of labels


def locate_mnist(data_dir: Path | None = None, download: bool = False) -> list[Files]:
    """Find the files of the training and test images."""
    folder = data_folder(data_dir)
    train, test = (_find(folder, "mnist.npz", FOLDERS, part) for part in PARTS)
    if train is None or test is None:
        files = "mnist.npz or mnist/train-images-idx3-ubyte.gz with the three files that belong to it"
        raise missing_images("MNIST", files, folder, MNIST_ADDRESS)
    return [train, test]


def load_mnist(data_dir: Path | None = None, download: bool = False) -> ImageSet:
    """Load the digits: 60,000 training and 10,000 test images."""
    train, test = (_read(files, part) for files, part in zip(locate_mnist(data_dir, download), PARTS))
    train = check_part("mnist", *train, SHAPE, TRAIN_COUNTS)
    return join_parts("mnist", train, check_part("mnist", *test, SHAPE, TEST_COUNTS), DIGITS)


def load_mnist_binary(data_dir: Path | None = None, download: bool = False) -> ImageSet:
    """Load MNIST with two classes, even and odd digits."""
    digits = load_mnist(data_dir, download)
    return ImageSet(
        "mnist_binary", digits.images, digits.target.astype(np.int64) % 2, ("even", "odd"), digits.test_fold
    )


def locate_notmnist(data_dir: Path | None = None, download: bool = False) -> Files:
    """Find the files of the letters."""
    folder = data_folder(data_dir)
    found = _find(folder, "notmnist_test.npz", ("notmnist",), "test")
    if found is None:
        files = "notmnist_test.npz or notmnist/t10k-images-idx3-ubyte.gz with its labels"
        raise missing_images("notMNIST", files, folder, NOTMNIST_ADDRESS)
    return found


def load_notmnist(data_dir: Path | None = None, download: bool = False) -> ImageSet:
    """Load the letters A to J in many typefaces: 10,000 images that models of MNIST should find strange."""
    part = _read(locate_notmnist(data_dir, download), "test")
    images, target = check_part("notmnist", *part, SHAPE, LETTER_COUNTS)
    return ImageSet("notmnist", images, target, LETTERS, np.full(len(target), TEST))


def _find(folder: Path, arrays: str, folders: tuple[str, ...], part: str) -> Files | None:
    """Find the files of one part, "train" or "test"; None if they are not there."""
    if (folder / arrays).is_file():
        return (folder / arrays,)
    stem = {"train": "train", "test": "t10k"}[part]
    for own in (folder / name for name in folders):
        for ending in ("", ".gz"):
            images, labels = (own / f"{stem}-{kind}-ubyte{ending}" for kind in ("images-idx3", "labels-idx1"))
            if images.is_file() and labels.is_file():
                return images, labels
    return None


def _read(files: Files, part: str) -> Part:
    """Read images and labels of one part."""
    path, *labels = files
    if labels:
        return read_idx(path)[:, None], read_idx(labels[0])
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            if isinstance(found, np.ndarray):
                raise ValueError("it holds a single array")
            with found:
                return found[f"x_{part}"][:, None], found[f"y_{part}"]
    except (KeyError, IndexError, OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise unreadable(path, error) from error
