"""Image files in their published formats, and checks that they hold the published images."""

import gzip
import io
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from svdkl.errors import first_line
from svdkl_research.datasets.dataset import Array, ImageSet
from svdkl_research.datasets.files import VARIABLE, data_folder

Bytes = npt.NDArray[np.uint8]
Part = tuple[Bytes, Array]  # images and their classes
TEST, TRAINING = 0, -1  # test_fold of test and of training images: a published split is the only fold


def missing_images(name: str, files: str, folder: Path, address: str, found: str = "none") -> FileNotFoundError:
    """Make the error for a set without files."""
    return FileNotFoundError(
        f"Expected {files} in {folder}, found {found}: get {name} from {address}, and name its folder by --data-dir or "
        f"{VARIABLE}."
    )


def find_images(data_dir: Path | None, table: str, archive: str, unpacked: str) -> Path | None:
    """Find a set's table, its published archive or the unpacked folder; None if none is there."""
    folder = data_folder(data_dir)
    files = (path for name in (table, archive) if (path := folder / name).is_file())
    return next(files, folder / unpacked if (folder / unpacked).is_dir() else None)


def unreadable(path: Path, error: Exception) -> ValueError:
    """Make the error for a file that is damaged or of another format."""
    return ValueError(f"Expected whole images in {path}, but they cannot be read ({first_line(error)}).")


def check_part(name: str, images: Bytes, labels: Array, shape: tuple[int, int, int], counts: Sequence[int]) -> Part:
    """Return images and labels; refuse other shapes and class counts than the published ones."""
    if images.shape != (len(labels), *shape) or images.dtype != np.uint8:
        raise ValueError(
            f"Expected {name} as {sum(counts)} images of {shape} bytes, got {images.shape} of {images.dtype} and "
            f"{len(labels)} labels: these are not the published images."
        )
    numbers = labels.astype(np.int64)
    known = (numbers >= 0) & (numbers < len(counts))
    found = np.bincount(numbers[known], minlength=len(counts)).tolist()
    if found != list(counts) or not known.all():
        raise ValueError(
            f"Expected {', '.join(map(str, counts))} images of the classes of {name}, got "
            f"{', '.join(map(str, found))}: these are not the published images."
        )
    return images, numbers


def join_parts(name: str, train: Part, test: Part, classes: Sequence[str]) -> ImageSet:
    """Join training and test images to a set with its published split."""
    fold = np.repeat(np.array([TRAINING, TEST]), [len(train[1]), len(test[1])])
    images, target = np.concatenate([train[0], test[0]]), np.concatenate([train[1], test[1]])
    return ImageSet(name, images, target, tuple(classes), fold)


def read_idx(path: Path) -> Bytes:
    """Read the array of bytes in a file of MNIST's own format, plain or gzip."""
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        # Two zeros, 8 for bytes, the number of dimensions; then their lengths, the first byte the largest.
        zero, kind, dims = struct.unpack_from(">HBB", content)
        shape = struct.unpack_from(f">{dims}I", content, 4)
        if (zero, kind) != (0, 8):
            raise ValueError("it does not start as such a file does")
        return np.frombuffer(content, np.uint8, offset=4 + 4 * dims).reshape(shape)
    except (OSError, EOFError, ValueError, struct.error) as error:
        raise unreadable(path, error) from error


def decode_picture(content: bytes) -> Bytes:
    """Decode a JPEG, PNG or WebP picture, colour or grey, to pixels of shape (H, W, 3)."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Expected Pillow to be installed to read pictures: pip install pillow.") from error
    with Image.open(io.BytesIO(content)) as picture:
        return np.asarray(picture.convert("RGB"), dtype=np.uint8)
