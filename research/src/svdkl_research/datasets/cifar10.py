"""CIFAR-10: 50,000 training and 10,000 test pictures of ten things, 32 x 32 pixels in colour.

Read from ``cifar-10-binary.tar.gz``, the published archive of plain bytes, from the folder that it unpacks to, or from
``cifar10.parquet``, 500 pictures a row in one lossless strip. The archive "for Python" holds pickles, which are
programs, and is not read.
"""

import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

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

SHAPE = (3, 32, 32)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAIN_COUNTS, TEST_COUNTS = (5000,) * 10, (1000,) * 10
ARCHIVE, FOLDER, STRIPS = "cifar-10-binary.tar.gz", "cifar-10-batches-bin", "cifar10.parquet"
FILES = {"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)}
PICKLES = ("cifar-10-python.tar.gz", "cifar-10-batches-py")
ADDRESS = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"


def locate_cifar10(data_dir: Path | None = None, download: bool = False) -> Path:
    """Find the file or folder with the pictures."""
    path = find_images(data_dir, STRIPS, ARCHIVE, FOLDER)
    if path is None:
        folder = data_folder(data_dir)
        there = next((name for name in PICKLES if (folder / name).exists()), None)
        found = f"only {there}, which is not read, since it holds pickles and those are programs" if there else "none"
        raise missing_images("CIFAR-10", f"{ARCHIVE}, {FOLDER} or {STRIPS}", folder, ADDRESS, found)
    return path


def load_cifar10(data_dir: Path | None = None, download: bool = False) -> ImageSet:
    """Load the pictures with their published split."""
    path = locate_cifar10(data_dir, download)
    train, test = _read_strips(path) if path.name == STRIPS else _read_published(path)
    train = check_part("cifar10", *train, SHAPE, TRAIN_COUNTS)
    return join_parts("cifar10", train, check_part("cifar10", *test, SHAPE, TEST_COUNTS), CLASSES)


def load_cifar10_resnet(data_dir: Path | None = None, download: bool = False) -> ImageSet:
    """Load CIFAR-10 under another name, for the paper's comparison with a residual network."""
    return replace(load_cifar10(data_dir, download), name="cifar10_resnet")


def _read_published(path: Path) -> list[Part]:
    """Read both parts from the published archive, or from the folder that it unpacks to."""
    try:
        if path.is_dir():
            return _read_batches(lambda name: (path / name).read_bytes())
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:gz") as archive:

            def read(name: str) -> bytes:
                batch = archive.extractfile(f"{FOLDER}/{name}")
                return b"" if batch is None else batch.read()

            return _read_batches(read)
    except (tarfile.TarError, KeyError, OSError, EOFError, ValueError) as error:
        raise unreadable(path, error) from error


def _read_batches(read: Callable[[str], bytes]) -> list[Part]:
    """Read both parts from records of one byte for the class and 3,072 bytes for the pixels."""
    parts: list[Part] = []
    for names in FILES.values():
        records = np.frombuffer(b"".join(map(read, names)), np.uint8).reshape(-1, 1 + 3 * 32 * 32)
        parts.append((records[:, 1:].reshape(-1, *SHAPE), records[:, 0]))
    return parts


def _read_strips(path: Path) -> list[Part]:
    """Read both parts from strips, pictures of 32 pixels' width that hold many pictures below each other."""
    table = read_table(path)
    check_columns("cifar10", table, ("split", "chunk", "webp", "labels_u8"))
    table = table.sort_by("chunk")
    parts: list[Part] = []
    for split in ("train", "test"):
        rows = table.filter(pc.equal(table.column("split"), split))
        try:
            strips = [decode_picture(content).reshape(-1, 32, 32, 3) for content in rows.column("webp").to_pylist()]
            images = np.concatenate(strips).transpose(0, 3, 1, 2)
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from error
        labels = np.frombuffer(b"".join(rows.column("labels_u8").to_pylist()), np.uint8)
        parts.append((np.ascontiguousarray(images), labels))
    return parts
