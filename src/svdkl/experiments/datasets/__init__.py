"""The data sets by name."""

from collections.abc import Callable
from pathlib import Path

from svdkl.experiments.datasets.adult import ADULT
from svdkl.experiments.datasets.built_in import load_progression, load_tumours
from svdkl.experiments.datasets.cifar10 import load_cifar10, load_cifar10_resnet, locate_cifar10
from svdkl.experiments.datasets.connect4 import CONNECT4
from svdkl.experiments.datasets.covertype import COVERTYPE
from svdkl.experiments.datasets.dataset import Dataset, ImageSet, Split, hold_out, split
from svdkl.experiments.datasets.diabetes import DIABETES
from svdkl.experiments.datasets.flights import load_airline, load_flights, locate_airline, locate_flights
from svdkl.experiments.datasets.mnist import (
    load_mnist,
    load_mnist_binary,
    load_notmnist,
    locate_mnist,
    locate_notmnist,
)
from svdkl.experiments.datasets.nycflights import load_nycflights, locate_nycflights
from svdkl.experiments.datasets.regression import LOADERS as REGRESSION
from svdkl.experiments.datasets.regression import LOCATORS as REGRESSION_FILES
from svdkl.experiments.datasets.svhn import load_svhn, locate_svhn
from svdkl.experiments.datasets.tiny_imagenet import load_tiny_imagenet20, locate_tiny_imagenet20

LOADERS: dict[str, Callable[[Path | None, bool], Dataset | ImageSet]] = {
    "adult": ADULT.load,
    "connect4": CONNECT4.load,
    "covertype": COVERTYPE.load,
    "diabetes": DIABETES.load,
    "flights": load_flights,
    "airline": load_airline,
    "nycflights": load_nycflights,
    "tumours": load_tumours,
    "progression": load_progression,
    **REGRESSION,
    "mnist": load_mnist,
    "mnist_binary": load_mnist_binary,
    "notmnist": load_notmnist,
    "cifar10": load_cifar10,
    "cifar10_resnet": load_cifar10_resnet,
    "svhn": load_svhn,
    "tiny_imagenet20": load_tiny_imagenet20,
}
# What finds the files of a set, and refuses where they are not there; sets that are not here need none.
LOCATORS: dict[str, Callable[[Path | None, bool], object]] = {
    "adult": ADULT.locate,
    "connect4": CONNECT4.locate,
    "covertype": COVERTYPE.locate,
    "diabetes": DIABETES.locate,
    "flights": locate_flights,
    "airline": locate_airline,
    "nycflights": locate_nycflights,
    **REGRESSION_FILES,
    "mnist": locate_mnist,
    "mnist_binary": locate_mnist,
    "notmnist": locate_notmnist,
    "cifar10": locate_cifar10,
    "cifar10_resnet": locate_cifar10,
    "svhn": locate_svhn,
    "tiny_imagenet20": locate_tiny_imagenet20,
}


def missing_data(name: str, data_dir: Path | None = None, download: bool = False) -> str:
    """Why a set cannot be loaded, if its files are not there; with ``download`` they are fetched."""
    locate = LOCATORS.get(name)
    try:
        if locate is not None:
            locate(data_dir, download)
    except (OSError, ImportError) as error:
        return str(error)
    return ""


def load_dataset(name: str, data_dir: Path | None = None, download: bool = False) -> Dataset | ImageSet:
    """Load a data set by name, from ``data_dir``, else the folder that SVDKL_DATA names, else the user's cache.

    With ``download``, a set that is not there and that OpenML has is fetched and kept in that folder.
    """
    if name not in LOADERS:
        raise ValueError(f"Expected a data set out of {', '.join(LOADERS)}, got {name!r}.")
    return LOADERS[name](data_dir, download)


__all__ = ["LOADERS", "LOCATORS", "Dataset", "ImageSet", "Split", "hold_out", "load_dataset", "missing_data", "split"]
