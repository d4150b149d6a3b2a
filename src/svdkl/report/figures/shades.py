"""Colours of heat maps: more or less opaque, so that the page shows through where a value is small."""

import numpy as np
import numpy.typing as npt

# Of medium lightness, since pixels cannot change with the page.
POSITIVE, NEGATIVE = (37, 99, 235), (234, 88, 12)

Shades = npt.NDArray[np.uint8]


def sequential(share: npt.NDArray[np.float64]) -> Shades:
    """From nothing at 0 to a full colour at 1, (..., 4)."""
    return _coloured(np.broadcast_to(np.array(POSITIVE), (*share.shape, 3)), share)


def diverging(share: npt.NDArray[np.float64]) -> Shades:
    """From one colour at -1 through nothing to another at 1, (..., 4)."""
    colour = np.where(share[..., None] < 0, np.array(NEGATIVE), np.array(POSITIVE))
    return _coloured(colour, np.abs(share))


def _coloured(colour: npt.NDArray[np.int64], opacity: npt.NDArray[np.float64]) -> Shades:
    opacity = np.nan_to_num(np.clip(opacity, 0, 1))
    return np.concatenate([colour, 255 * opacity[..., None]], -1).round().astype(np.uint8)
