"""Sets of images: read from small archives in the published formats, checked, split as published."""

import gzip
import io
import os
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from refusals import refused
from scipy.io import savemat

from svdkl_research.datasets import ImageSet, cifar10, hold_out, load_dataset, mnist, split, svhn, tiny_imagenet
from svdkl_research.datasets.image_files import read_idx

REAL = os.environ.get("SVDKL_DATA") or None
RANDOM = np.random.default_rng(0)


def pixels(*shape: int) -> np.ndarray:
    return RANDOM.integers(0, 256, shape, dtype=np.uint8)


def split_into(dataset: ImageSet, train: np.ndarray, test: np.ndarray) -> None:
    """Assert that these are the training and test images, channel by channel."""
    rows = split(dataset, 0)
    np.testing.assert_array_equal(dataset.take(rows.train), train)
    np.testing.assert_array_equal(dataset.take(rows.test), test)
    assert dataset.images.dtype == np.uint8
    refused(lambda: split(dataset, 1), dataset.name, "below 1")


# ------------------------------------------------------------------------------------------------------------- MNIST


@pytest.fixture
def few_digits(monkeypatch) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    monkeypatch.setattr(mnist, "TRAIN_COUNTS", (2,) * 10)
    monkeypatch.setattr(mnist, "TEST_COUNTS", (1,) * 10)
    monkeypatch.setattr(mnist, "LETTER_COUNTS", (1,) * 10)
    y = np.arange(20, dtype=np.uint8) % 10
    return pixels(20, 28, 28), y, pixels(10, 28, 28), y[9::-1]


def write_idx(path: Path, array: np.ndarray) -> None:
    content = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


@pytest.mark.parametrize("form", ["npz", "gz", "plain"])
def test_mnist(form, few_digits, tmp_path):
    x, y, x_test, y_test = few_digits
    if form == "npz":
        np.savez(tmp_path / "mnist.npz", x_train=x, y_train=y, x_test=x_test, y_test=y_test)
    else:
        folder = tmp_path / ("mnist" if form == "gz" else "MNIST/raw")
        folder.mkdir(parents=True)
        ending = ".gz" if form == "gz" else ""
        for name, array in {"train-images-idx3": x, "t10k-images-idx3": x_test}.items():
            write_idx(folder / f"{name}-ubyte{ending}", array)
        for name, array in {"train-labels-idx1": y, "t10k-labels-idx1": y_test}.items():
            write_idx(folder / f"{name}-ubyte{ending}", array)
    digits = load_dataset("mnist", tmp_path)
    split_into(digits, x[:, None], x_test[:, None])
    assert digits.target.tolist() == [*y, *y_test]
    odd = load_dataset("mnist_binary", tmp_path)
    assert (odd.name, odd.classes) == ("mnist_binary", ("even", "odd"))
    np.testing.assert_array_equal(odd.target, digits.target % 2)


def test_letters_are_test_images_only(few_digits, tmp_path):
    _, _, x_test, y_test = few_digits
    np.savez(tmp_path / "notmnist_test.npz", x_test=x_test, y_test=y_test)
    letters = load_dataset("notmnist", tmp_path)
    split_into(letters, x_test[:0, None], x_test[:, None])
    assert letters.classes[letters.target[0]] == "J"


def test_other_images_are_refused(few_digits, tmp_path):
    x, y, x_test, y_test = few_digits
    path = tmp_path / "mnist.npz"
    np.savez(path, x_train=x, y_train=y, x_test=x_test, y_test=np.roll(y_test, 1) // 2)
    refused(lambda: load_dataset("mnist", tmp_path), "1, 1, 1", "got 2, 2, 2, 2, 2, 0")
    np.savez(path, x_train=x, y_train=y + 1, x_test=x_test, y_test=y_test)
    refused(lambda: load_dataset("mnist", tmp_path), "published")
    np.savez(path, x_train=x[:, :14], y_train=y, x_test=x_test, y_test=y_test)
    refused(lambda: load_dataset("mnist", tmp_path), "(1, 28, 28)", "(20, 1, 14, 28)")
    np.savez(path, x_train=x, y_train=y)
    refused(lambda: load_dataset("mnist", tmp_path), str(path), "x_test")
    path.write_bytes(path.read_bytes()[:500])
    refused(lambda: load_dataset("mnist", tmp_path), str(path), "cannot be read")
    with path.open("wb") as file:
        np.save(file, x)
    refused(lambda: load_dataset("mnist", tmp_path), str(path), "a single array")


@pytest.mark.parametrize("content", [b"", b"\x00\x00\x0d\x01", b"\x00\x00\x08\x01\x00\x00\x00\x09abc"])
def test_damaged_files_of_mnist_are_refused(content, tmp_path):
    (tmp_path / "plain").write_bytes(content)
    refused(lambda: read_idx(tmp_path / "plain"), "plain", "cannot be read")
    (tmp_path / "images.gz").write_bytes(gzip.compress(content)[:-4])
    refused(lambda: read_idx(tmp_path / "images.gz"), "images.gz", "cannot be read")


# ---------------------------------------------------------------------------------------------------------- CIFAR-10


@pytest.fixture
def few_pictures(monkeypatch) -> tuple[np.ndarray, np.ndarray]:
    monkeypatch.setattr(cifar10, "TRAIN_COUNTS", (2,) * 10)
    monkeypatch.setattr(cifar10, "TEST_COUNTS", (1,) * 10)
    return pixels(30, 3, 32, 32), np.arange(30, dtype=np.uint8) % 10


def test_cifar10_from_the_archive(few_pictures, tmp_path):
    x, y = few_pictures
    records = np.concatenate([y[:, None], x.reshape(30, -1)], 1)
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    bounds = [0, 4, 8, 12, 16, 20, 30]
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, start, stop in reversed(list(zip(names, bounds, bounds[1:]))):
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            content = records[start:stop].tobytes()
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    pictures = load_dataset("cifar10", tmp_path)
    split_into(pictures, x[:20], x[20:])
    assert pictures.target.tolist() == y.tolist()
    assert pictures.classes[3] == "cat"
    assert load_dataset("cifar10_resnet", tmp_path).name == "cifar10_resnet"
    # Unpacked, as many have it.
    elsewhere = tmp_path / "unpacked"
    with tarfile.open(path) as archive:
        archive.extractall(elsewhere, filter="data")
    split_into(load_dataset("cifar10", elsewhere), x[:20], x[20:])
    (elsewhere / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    refused(lambda: load_dataset("cifar10", elsewhere), "cifar-10-batches-bin", "data_batch_3.bin", "cannot be read")
    path.write_bytes(path.read_bytes()[:1000])
    refused(lambda: load_dataset("cifar10", tmp_path), str(path), "cannot be read")


def test_pickles_of_cifar10_are_not_read(tmp_path):
    refused(lambda: load_dataset("cifar10", tmp_path), "cifar-10-batches-bin", "found none", error=FileNotFoundError)
    (tmp_path / "cifar-10-python.tar.gz").touch()
    parts = ("found only cifar-10-python.tar.gz", "pickles", "cifar-10-binary.tar.gz")
    refused(lambda: load_dataset("cifar10", tmp_path), *parts, error=FileNotFoundError)


def encoded(picture: np.ndarray, form: str, **options: object) -> bytes:
    """A picture (H, W, 3) or (H, W) in a file's form."""
    content = io.BytesIO()
    Image.fromarray(picture).save(content, form, **options)
    return content.getvalue()


def test_cifar10_from_strips(few_pictures, tmp_path):
    x, y = few_pictures
    # The second chunk stands first.
    rows = {"train": [(1, 10, 20), (0, 0, 10)], "test": [(0, 20, 30)]}
    table = [
        {
            "split": part,
            "chunk": chunk,
            "webp": encoded(np.concatenate(x[start:stop].transpose(0, 2, 3, 1)), "WEBP", lossless=True),
            "labels_u8": y[start:stop].tobytes(),
        }
        for part, chunks in rows.items()
        for chunk, start, stop in chunks
    ]
    path = tmp_path / "cifar10.parquet"
    pq.write_table(pa.Table.from_pylist(table), path)
    pictures = load_dataset("cifar10", tmp_path)
    split_into(pictures, x[:20], x[20:])
    assert pictures.target.tolist() == y.tolist()
    table[0]["webp"] = b"no picture"
    pq.write_table(pa.Table.from_pylist(table), path)
    refused(lambda: load_dataset("cifar10", tmp_path), str(path), "cannot be read")


# -------------------------------------------------------------------------------------------------------------- SVHN


def test_svhn(monkeypatch, tmp_path):
    monkeypatch.setattr(svhn, "TRAIN_COUNTS", (2,) * 10)
    monkeypatch.setattr(svhn, "TEST_COUNTS", (1,) * 10)
    x, y = pixels(30, 3, 32, 32), np.arange(30) % 10
    published = np.where(y == 0, 10, y).astype(np.uint8)[:, None]
    folder = tmp_path / "svhn"
    folder.mkdir()
    for part, rows in {"train": slice(0, 20), "test": slice(20, 30)}.items():
        content = {"X": x[rows].transpose(2, 3, 1, 0), "y": published[rows]}
        savemat(folder / f"{part}_32x32.mat", content, do_compression=True)
    numbers = load_dataset("svhn", tmp_path)
    split_into(numbers, x[:20], x[20:])
    assert numbers.target.tolist() == y.tolist()
    for path in folder.iterdir():
        path.rename(tmp_path / path.name)
    split_into(load_dataset("svhn", tmp_path), x[:20], x[20:])  # the folder is still there, and empty
    (tmp_path / "test_32x32.mat").write_bytes(b"MATLAB 5.0 MAT-file, and no more")
    refused(lambda: load_dataset("svhn", tmp_path), "test_32x32.mat", "cannot be read")


# ----------------------------------------------------------------------------------------------------- Tiny-ImageNet


@pytest.fixture
def two_classes(monkeypatch) -> list[tuple[str, str, bytes]]:
    """A training picture and a test picture of each of two classes, one of them grey, and one of a third class."""
    monkeypatch.setattr(tiny_imagenet, "CLASSES", {"n1": "cat", "n2": "reel"})
    monkeypatch.setattr(tiny_imagenet, "TRAIN_COUNTS", (1, 1))
    monkeypatch.setattr(tiny_imagenet, "TEST_COUNTS", (1, 1))
    grey = encoded(np.full((64, 64), 90, np.uint8), "JPEG")
    colours = {wordnet: np.full((64, 64, 3), colour, np.uint8) for wordnet, colour in (("n1", 20), ("n3", 250))}
    dark, bright = (encoded(picture, "JPEG") for picture in colours.values())
    return [
        ("train", "n2", grey),
        ("train", "n1", dark),
        ("train", "n3", bright),
        ("val", "n2", grey),
        ("val", "n1", dark),
    ]


def check_two_classes(folder: Path) -> None:
    pictures = load_dataset("tiny_imagenet20", folder)
    assert pictures.images.shape == (4, 3, 64, 64)
    assert (pictures.images == np.where(pictures.target == 0, 20, 90)[:, None, None, None]).all()
    assert sorted(pictures.target[split(pictures, 0).test]) == [0, 1]


def test_tiny_imagenet_from_a_table(two_classes, tmp_path):
    rows = [dict(zip(("split", "wnid", "jpeg"), row)) for row in two_classes]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "tiny_imagenet_30cls.parquet")
    check_two_classes(tmp_path)


def test_tiny_imagenet_from_the_archive(two_classes, tmp_path):
    path = tmp_path / "tiny-imagenet-200.zip"
    with zipfile.ZipFile(path, "w") as archive:
        lines = []
        for number, (part, wordnet, content) in enumerate(two_classes):
            if part == "train":
                archive.writestr(f"tiny-imagenet-200/train/{wordnet}/images/{wordnet}_0.JPEG", content)
            else:
                archive.writestr(f"tiny-imagenet-200/val/images/val_{number}.JPEG", content)
                lines.append(f"val_{number}.JPEG\t{wordnet}\t0\t0\t63\t63\n")
        archive.writestr("tiny-imagenet-200/val/val_annotations.txt", "".join(lines))
    check_two_classes(tmp_path)
    elsewhere = tmp_path / "unpacked"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(elsewhere)
    check_two_classes(elsewhere)
    (elsewhere / "tiny-imagenet-200" / "val" / "val_annotations.txt").unlink()
    refused(lambda: load_dataset("tiny_imagenet20", elsewhere), "tiny-imagenet-200", "val_annotations.txt")
    path.write_bytes(path.read_bytes()[:200])
    refused(lambda: load_dataset("tiny_imagenet20", tmp_path), str(path), "cannot be read")


# --------------------------------------------------------------------------------------------------------- real files


@pytest.mark.skipif(REAL is None, reason="needs the data files")
@pytest.mark.parametrize(
    ("name", "sizes", "mean"),
    [
        ("mnist", (60_000, 10_000), 0.1307),
        ("notmnist", (0, 10_000), None),
        ("cifar10", (50_000, 10_000), 0.4734),
        ("tiny_imagenet20", (10_000, 1_000), None),
    ],
)
def test_the_real_files_pass_their_checks(name, sizes, mean):
    images = load_dataset(name, Path(str(REAL)))
    rows = split(images, 0)
    assert (len(rows.train), len(rows.test)) == sizes
    if mean is not None:
        assert images.images[rows.train].mean() / 255 == pytest.approx(mean, abs=1e-4)
        fit, validation = hold_out(images, rows.train, 0)
        assert len(validation) * 10 == len(rows.train)
        assert np.union1d(fit, validation).tolist() == rows.train.tolist()
