"""Rows by their numbers, and, where they are images, with a small picture."""

import base64
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from svdkl.report.facts.all_facts import Facts
from svdkl.report.html import Markup, text
from svdkl.report.words import count

MOST_PIXELS = 64  # of a side; larger images are thinned out
COLOUR_TYPES = {1: 0, 3: 2}  # of PNG, by channels: grey, and red, green and blue


def numbered(facts: Facts, row: int, words: str = "") -> str:
    """The number of a row and words on it, with its picture in front if it is an image of 1 or 3 channels."""
    told = count(row) + words
    if not shows_images(facts.X):
        return told
    name = text(f"Row {count(row)}")
    source = base64.b64encode(_png(_pixels(facts, row))).decode()
    return Markup(f'<img class="row" alt="{name}" src="data:image/png;base64,{source}"> {text(told)}')


def shows_images(X: Any) -> bool:
    """Whether rows are images (K, H, W) that can be shown."""
    return isinstance(X, np.ndarray) and X.ndim == 4 and X.shape[1] in COLOUR_TYPES


def _pixels(facts: Facts, row: int) -> npt.NDArray[np.uint8]:
    """(H, W, K). Bytes stay what they are; other numbers go from the smallest to the largest of the figures' rows."""
    image = facts.X[row]
    step = -(-max(image.shape[1:]) // MOST_PIXELS)
    image = image[:, ::step, ::step].transpose(1, 2, 0)
    if image.dtype == np.uint8:
        return np.ascontiguousarray(image)
    low, high = facts.pixel_range
    scaled = (image.astype(np.float64) - low) / (high - low or 1.0)
    return np.ascontiguousarray((255 * scaled.clip(0, 1)).round().astype(np.uint8))


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """The file of a picture (H, W, K): a header, the lines, each after a zero that says it is not filtered, an end."""
    height, width, channels = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    header = struct.pack(">IIBBBBB", width, height, 8, COLOUR_TYPES[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    )
