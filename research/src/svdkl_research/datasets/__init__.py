"""The data sets by name."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from svdkl_research.datasets.adult import ADULT
from svdkl_research.datasets.built_in import load_progression, load_tumours
from svdkl_research.datasets.cifar10 import load_cifar10, load_cifar10_resnet, locate_cifar10
from svdkl_research.datasets.connect4 import CONNECT4
from svdkl_research.datasets.covertype import COVERTYPE
from svdkl_research.datasets.dataset import Dataset, ImageSet, Split, hold_out, split
from svdkl_research.datasets.diabetes import DIABETES
from svdkl_research.datasets.flights import load_airline, load_flights, locate_airline, locate_flights
from svdkl_research.datasets.mnist import load_mnist, load_mnist_binary, load_notmnist, locate_mnist, locate_notmnist
from svdkl_research.datasets.regression import SIZES as REGRESSION
from svdkl_research.datasets.regression import load_regression, locate_regression
from svdkl_research.datasets.svhn import load_svhn, locate_svhn
from svdkl_research.datasets.tiny_imagenet import load_tiny_imagenet20, locate_tiny_imagenet20


class Source(NamedTuple):
    """How to find and read a data set.

    Attributes
    ----------
    load
        Function that reads the set.
    locate
        Function that finds its files and raises an error where they are missing; None for a set without files.
    at_openml
        Whether OpenML has the set, to be downloaded.
    """

    load: Callable[[Path | None, bool], Dataset | ImageSet]
    locate: Callable[[Path | None, bool], object] | None = None
    at_openml: bool = False


SOURCES: dict[str, Source] = {
    **{
        table.name: Source(table.load, table.locate, table.openml_id > 0)
        for table in (ADULT, CONNECT4, COVERTYPE, DIABETES)
    },
    "flights": Source(load_flights, locate_flights),
    "airline": Source(load_airline, locate_airline),
    "tumours": Source(load_tumours),
    "progression": Source(load_progression),
    **{name: Source(partial(load_regression, name), partial(locate_regression, name)) for name in REGRESSION},
    "mnist": Source(load_mnist, locate_mnist),
    "mnist_binary": Source(load_mnist_binary, locate_mnist),
    "notmnist": Source(load_notmnist, locate_notmnist),
    "cifar10": Source(load_cifar10, locate_cifar10),
    "cifar10_resnet": Source(load_cifar10_resnet, locate_cifar10),
    "svhn": Source(load_svhn, locate_svhn),
    "tiny_imagenet20": Source(load_tiny_imagenet20, locate_tiny_imagenet20),
}
# The set whose images a model of another set's images should recognise as out of distribution.
ELSEWHERE = {
    "mnist": "notmnist",
    "mnist_binary": "notmnist",
    "cifar10": "tiny_imagenet20",
    "cifar10_resnet": "tiny_imagenet20",
}


def missing_data(name: str, data_dir: Path | None = None, download: bool = False) -> str:
    """Say why a set cannot be loaded; empty if its files are there. With ``download`` they are fetched."""
    locate = SOURCES[name].locate
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
    if name not in SOURCES:
        raise ValueError(f"Expected a data set out of {', '.join(SOURCES)}, got {name!r}.")
    return SOURCES[name].load(data_dir, download)


__all__ = [
    "ELSEWHERE",
    "SOURCES",
    "Dataset",
    "ImageSet",
    "Source",
    "Split",
    "hold_out",
    "load_dataset",
    "missing_data",
    "split",
]
