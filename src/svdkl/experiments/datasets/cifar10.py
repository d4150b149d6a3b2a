"""CIFAR-10: 50,000 training and 10,000 test pictures of ten things, 32 x 32 pixels in colour.

Read from ``cifar-10-binary.tar.gz``, the published archive of plain bytes, or from ``cifar10.parquet``, 500 pictures a
row in one lossless strip. The archive "for Python" holds pickles, which are programs, and is not read.
"""

import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from svdkl.experiments.datasets.dataset import ImageSet
from svdkl.experiments.datasets.files import check_columns, read_table
from svdkl.experiments.datasets.image_files import (
    Part,
    check_part,
    decode_picture,
    join_parts,
    locate_images,
    unreadable,
)

SHAPE = (3, 32, 32)
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAIN_COUNTS, TEST_COUNTS = (5000,) * 10, (1000,) * 10
ARCHIVE, FOLDER, STRIPS = "cifar-10-binary.tar.gz", "cifar-10-batches-bin", "cifar10.parquet"
FILES = {"train": tuple(f"data_batch_{number}.bin" for number in range(1, 6)), "test": ("test_batch.bin",)}
ADDRESS = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"


def locate_cifar10(data_dir: Path | None = None, download: bool = False) -> Path:
    """The file of the pictures."""
    return locate_images("CIFAR-10", STRIPS, ARCHIVE, ADDRESS, data_dir)


def load_cifar10(data_dir: Path | None = None, download: bool = False) -> ImageSet:
    """The pictures with their published split."""
    path = locate_cifar10(data_dir, download)
    train, test = _read_strips(path) if path.name == STRIPS else _read_archive(path)
    train = check_part("cifar10", *train, SHAPE, TRAIN_COUNTS)
    return join_parts("cifar10", train, check_part("cifar10", *test, SHAPE, TEST_COUNTS), CLASSES)


def load_cifar10_resnet(data_dir: Path | None = None, download: bool = False) -> ImageSet:
    """The same pictures, for the paper's comparison with a residual network."""
    return replace(load_cifar10(data_dir, download), name="cifar10_resnet")


def _read_archive(path: Path) -> list[Part]:
    """Training and test pictures: a byte for the class and 3,072 for the pixels each, nothing else."""
    parts: list[Part] = []
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:gz") as archive:
            for names in FILES.values():
                batches = [archive.extractfile(f"{FOLDER}/{name}") for name in names]
                content = b"".join(batch.read() for batch in batches if batch is not None)
                records = np.frombuffer(content, np.uint8).reshape(-1, 1 + 3 * 32 * 32)
                parts.append((records[:, 1:].reshape(-1, *SHAPE), records[:, 0]))
    except (tarfile.TarError, KeyError, OSError, EOFError, ValueError) as error:
        raise unreadable(path, error) from error
    return parts


def _read_strips(path: Path) -> list[Part]:
    """Training and test pictures, one below the other in a picture of 32 pixels' width."""
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
