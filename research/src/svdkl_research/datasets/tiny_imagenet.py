"""Twenty classes of Tiny-ImageNet: 500 training and 50 test pictures of each, 64 x 64 pixels in colour.

Read from the published ``tiny-imagenet-200.zip``, from the folder that it unpacks to, or from
``tiny_imagenet_30cls.parquet``, which has these classes and ten more. The set's own validation pictures are the test
pictures here: its test pictures have no published labels.
"""

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from svdkl_research.datasets.dataset import ImageSet
from svdkl_research.datasets.files import check_columns, data_folder, read_table
from svdkl_research.datasets.image_files import (
    Part,
    check_part,
    decode_picture,
    find_images,
    join_parts,
    missing_images,
    unreadable,
)

SHAPE = (3, 64, 64)
CLASSES = {  # drawn at random, as the paper drew its twenty
    "n02124075": "Egyptian cat",
    "n04067472": "reel",
    "n04540053": "volleyball",
    "n04099969": "rocking chair",
    "n07749582": "lemon",
    "n01641577": "bullfrog",
    "n02802426": "basketball",
    "n09246464": "cliff",
    "n07920052": "espresso",
    "n03970156": "plunger",
    "n03891332": "parking meter",
    "n02106662": "German shepherd",
    "n03201208": "dining table",
    "n02279972": "monarch",
    "n02132136": "brown bear",
    "n04146614": "school bus",
    "n07873807": "pizza",
    "n02364673": "guinea pig",
    "n04507155": "umbrella",
    "n03854065": "organ",
}
TRAIN_COUNTS, TEST_COUNTS = (500,) * 20, (50,) * 20
ARCHIVE, TABLE, FOLDER = "tiny-imagenet-200.zip", "tiny_imagenet_30cls.parquet", "tiny-imagenet-200"
ADDRESS = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"

Pictures = list[tuple[bytes, str]]  # the encoded picture, and its class by WordNet's number


def locate_tiny_imagenet20(data_dir: Path | None = None, download: bool = False) -> Path:
    """Find the file or folder with the pictures."""
    path = find_images(data_dir, TABLE, ARCHIVE, FOLDER)
    if path is None:
        raise missing_images("Tiny-ImageNet", f"{ARCHIVE}, {FOLDER} or {TABLE}", data_folder(data_dir), ADDRESS)
    return path


def load_tiny_imagenet20(data_dir: Path | None = None, download: bool = False) -> ImageSet:
    """Load the pictures of the twenty classes with their published split."""
    path = locate_tiny_imagenet20(data_dir, download)
    try:
        train, test = _of_table(path) if path.name == TABLE else _of_published(path)
        parts = [_decode(train), _decode(test)]
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        raise unreadable(path, error) from error
    name = "tiny_imagenet20"
    first = check_part(name, *parts[0], SHAPE, TRAIN_COUNTS)
    return join_parts(name, first, check_part(name, *parts[1], SHAPE, TEST_COUNTS), tuple(CLASSES.values()))


def _of_table(path: Path) -> tuple[Pictures, Pictures]:
    table = read_table(path)
    check_columns("tiny_imagenet20", table, ("split", "wnid", "jpeg"))
    pictures: dict[str, Pictures] = {"train": [], "val": []}
    for split, wordnet, content in zip(*(table.column(name).to_pylist() for name in ("split", "wnid", "jpeg"))):
        if wordnet in CLASSES:
            pictures[split].append((content, wordnet))
    return pictures["train"], pictures["val"]


def _of_published(path: Path) -> tuple[Pictures, Pictures]:
    """Read the pictures from the published archive, or from the folder that it unpacks to."""
    if path.is_dir():
        return _of_files(lambda name: (path / name).read_bytes())
    with zipfile.ZipFile(path) as archive:
        return _of_files(lambda name: archive.read(f"{FOLDER}/{name}"))


def _of_files(read: Callable[[str], bytes]) -> tuple[Pictures, Pictures]:
    train = [
        (read(f"train/{wordnet}/images/{wordnet}_{number}.JPEG"), wordnet)
        for wordnet in CLASSES
        for number in range(TRAIN_COUNTS[0])
    ]
    named = (line.split("\t")[:2] for line in read("val/val_annotations.txt").decode().splitlines())
    test = [(read(f"val/images/{file}"), wordnet) for file, wordnet in named if wordnet in CLASSES]
    return train, test


def _decode(pictures: Pictures) -> Part:
    images = np.empty((len(pictures), *SHAPE), np.uint8)
    for image, (content, _) in zip(images, pictures):
        image[:] = decode_picture(content).transpose(2, 0, 1)
    places = {wordnet: place for place, wordnet in enumerate(CLASSES)}
    return images, np.array([places[wordnet] for _, wordnet in pictures], dtype=np.int64)
