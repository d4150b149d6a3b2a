"""The parameters that a fitted model is built by: changed under it, they would describe another model."""

import re
from textwrap import shorten
from typing import Any

from svdkl.estimators.plain import plain

STRUCTURE = (
    "recipe",
    "likelihood",
    "hidden",
    "num_features",
    "dropout",
    "encoding",
    "normalise",
    "residual",
    "net",
    "gps",
    "grid_size",
    "dims_per_gp",
    "kernel",
    "posterior",
)
LONGEST = 100  # characters of a parameter in a message: networks are long


def structure_of(estimator: Any) -> dict[str, str]:
    """Each of them in words: of networks, too, these are the same for copies, in whatever process."""
    parameters = estimator.get_params(deep=False)
    return {name: _in_words(parameters[name]) for name in STRUCTURE if name in parameters}


def check_structure(estimator: Any) -> None:
    """A ValueError if one of them is not what it was when the model was fitted."""
    for name, now in structure_of(estimator).items():
        fitted = estimator.structure_[name]
        if now != fitted:
            before, after = (shorten(words, LONGEST, placeholder="...") for words in (fitted, now))
            raise ValueError(
                f"Expected {name}={before}, as the model was fitted with, got {after}: set it back, or fit a new model."
            )


def _in_words(value: Any) -> str:
    return re.sub(" at 0x[0-9a-f]+", "", repr(plain(value)))
