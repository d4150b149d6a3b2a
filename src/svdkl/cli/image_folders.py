"""Images in files: the arrays of an .npz file, for a model whose network reads them."""

import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from svdkl.cli.data import listed
from svdkl.cli.scoring import Predicted
from svdkl.errors import first_line

Array = npt.NDArray[Any]

SUFFIX = ".npz"
NAMES = (("x_test", "y_test"), ("x", "y"))  # of images and labels; the first that are there
IMAGES_AT_ONCE = 10_000


class ImageFile:
    """The images of a file, as a model takes them, and their labels.

    Pixels stay what they are, since a model says nothing of the scale that it was fitted on.

    Parameters
    ----------
    estimator
        The fitted model.
    path
        Of the file: arrays x (N, K, H, W) or (N, H, W), and y (N,) where labels are asked for.
    **of_tables
        Options that only tables have; given ones are refused.
    """

    def __init__(self, estimator: Any, path: Path, **of_tables: Any) -> None:
        for option, value in of_tables.items():
            if value:
                name = f"--{option.replace('_', '-')}"
                raise ValueError(f"Expected {name} for tables only, got it for the images in {path}: leave it out.")
        shape = estimator.input_shape_
        self.estimator, self.path = estimator, path
        self.images, self._labels, self.target = _read(path)
        if self.images.ndim == 3 and shape[:1] == (1,) and len(shape) == 3:
            self.images = self.images[:, None]
        if self.images.shape[1:] != shape:
            raise ValueError(
                f"Expected images of shape {shape}, as the model was fitted on, got {self.images.shape[1:]} in "
                f"{path}: bring them into that shape."
            )
        self._tell_scale()

    @property
    def labels(self) -> Array:
        """One for each image."""
        if self._labels is None:
            raise ValueError(f"Expected an array {self.target!r} of labels in {self.path}, found none: add it.")
        if self._labels.shape != (len(self.images),):
            raise ValueError(
                f"Expected a label for each of {len(self.images):,} images in {self.path}, got {self.target!r} of "
                f"shape {self._labels.shape}: give one for each."
            )
        return self._labels

    def batches(self, beside: Sequence[str] = ()) -> Iterator[tuple[Array, Any]]:
        """The images part by part, as :class:`~svdkl.cli.data.MatchedFile` gives tables; nothing stands beside."""
        for start in range(0, len(self.images), IMAGES_AT_ONCE):
            yield self.images[start : start + IMAGES_AT_ONCE], None

    def predict_beside_targets(self) -> Predicted:
        """Predictions of all images, and their labels as a model knows them."""
        from svdkl.report.facts.predictions import class_numbers, real_values

        if hasattr(self.estimator, "classes_"):
            targets: Array = class_numbers(self.estimator, self.labels)
            return Predicted(True, self.estimator.predict_proba(self.images), targets, {})
        targets = real_values(self.estimator, self.labels)[:, 0]
        return Predicted(False, np.stack(self.estimator.predict(self.images, True), 1), targets, {})

    def _tell_scale(self) -> None:
        from svdkl.nets.images import reads_bytes

        if self.images.dtype == np.uint8 and not reads_bytes(self.estimator.net):
            warnings.warn(
                f"The images in {self.path} are bytes, and the network has no Standardise: it is given numbers from 0 "
                f"to 255. If it was fitted on another scale, save the images in that one.",
                stacklevel=2,
            )


def holds_images(estimator: Any, path: Path) -> bool:
    """Whether a file is one of images, by its name; refused, if that is not what the model reads."""
    given, read = path.name.lower().endswith(SUFFIX), len(getattr(estimator, "input_shape_", ())) > 1
    if given and not read:
        raise ValueError(f"Expected a table for a model of tables, got images in {path}: give it rows of a table.")
    if read and not given:
        raise ValueError(
            f"Expected a file that ends in {SUFFIX} for a model of images, got {path}: save them with numpy.savez."
        )
    return given


def _read(path: Path) -> tuple[Array, Array | None, str]:
    """Images, labels if there are any, and the name of the labels."""
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
    if not (np.abs(images) <= np.finfo(np.float32).max).all():  # nor where they are NaN
        raise ValueError(f"Expected finite pixels in {name!r} of {path}, got NaN or infinity: leave those images out.")
    return images
