"""Images in files: the arrays of an .npz file, for a model whose network reads them."""

import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from svdkl.cli.output import listed
from svdkl.cli.table_rows import Array, Rows, read_targets
from svdkl.errors import first_line
from svdkl.estimators.fitted import Fitted
from svdkl.nets.images import reads_bytes

SUFFIX = ".npz"
NAMES = (("x_test", "y_test"), ("x", "y"))  # of images and their labels; the first pair that a file has counts
IMAGES_AT_ONCE = 10_000


class ImageRows:
    """The images of a file, in the shape that a model takes, and their labels.

    The arrays are x (N, K, H, W) or (N, H, W), and y (N,) where labels are needed. Pixels stay what they are, since a
    model says nothing of the scale that it was fitted on.
    """

    def __init__(self, fitted: Fitted, path: Path) -> None:
        shape = fitted.columns.shape or ()
        self.fitted, self.path = fitted, path
        self.images, self._labels, self.target = _read(path)
        if self.images.ndim == 3 and shape[:1] == (1,) and len(shape) == 3:
            self.images = self.images[:, None]
        if self.images.shape[1:] != shape:
            raise ValueError(
                f"Expected images of shape {shape}, as the model was fitted on, got {self.images.shape[1:]} in "
                f"{path}: bring them into that shape."
            )
        if self.images.dtype == np.uint8 and not reads_bytes(fitted.options.net):
            warnings.warn(
                f"The images in {path} are bytes, and the network has no Standardise: it is given numbers from 0 to "
                f"255. If it was fitted on another scale, save the images in that one.",
                stacklevel=2,
            )

    def batches(self, beside: Sequence[str] = ()) -> Iterator[tuple[Array, Any]]:
        """Go through the images part by part; they have no other columns."""
        for start in range(0, len(self.images), IMAGES_AT_ONCE):
            yield self.images[start : start + IMAGES_AT_ONCE], None

    def with_targets(self, by: str | None = None) -> Iterator[Rows]:
        """Give all images, with labels as the model knows them."""
        yield Rows(self.images, read_targets(self.fitted, self.target, pa.array(self._checked_labels())), None)

    def whole(self) -> tuple[Array, Array]:
        """Return all images and their labels."""
        return self.images, self._checked_labels()

    def _checked_labels(self) -> Array:
        labels = self._labels
        if labels is None:
            raise ValueError(f"Expected an array {self.target!r} of labels in {self.path}, found none: add it.")
        if labels.shape != (len(self.images),) or labels.dtype.kind not in "biufU":
            raise ValueError(
                f"Expected a number or a text for each of {len(self.images):,} images in {self.path}, got "
                f"{self.target!r} of shape {labels.shape} and type {labels.dtype}: give a label for each."
            )
        return labels


def _read(path: Path) -> tuple[Array, Array | None, str]:
    """Read the images, the labels if there are any, and the name of the labels."""
    if not path.name.lower().endswith(SUFFIX):
        raise ValueError(
            f"Expected a file that ends in {SUFFIX} for a model of images, got {path}: save them with numpy.savez."
        )
    if not path.is_file():
        raise FileNotFoundError(f"Expected images in {path}, found no such file: check the path.")
    try:
        with path.open("rb") as file:
            arrays = np.load(file, allow_pickle=False)
            names = list(getattr(arrays, "files", ()))
            found = {name: arrays[name] for pair in NAMES for name in pair if name in names}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"Expected arrays of images and labels in {path}, but it cannot be read ({first_line(error)}): write it "
            f"with numpy.savez."
        ) from error
    for x, y in NAMES:
        if x in found:
            return _checked(path, x, found[x]), found.get(y), y
    raise ValueError(
        f"Expected an array 'x' or 'x_test' of images in {path}, got {listed(names) or 'none'}: save it under such a "
        f"name."
    )


def _checked(path: Path, name: str, images: Array) -> Array:
    if images.ndim not in (3, 4) or images.dtype.kind not in "uif" or images.size == 0:
        raise ValueError(
            f"Expected {name!r} in {path} to be images (N, K, H, W) or (N, H, W) of numbers, got {images.dtype} of "
            f"shape {images.shape}: bring them into that form."
        )
    if not (np.abs(images) <= np.finfo(np.float32).max).all():  # false for NaN, too
        raise ValueError(f"Expected finite pixels in {name!r} of {path}, got NaN or infinity: leave those images out.")
    return images
