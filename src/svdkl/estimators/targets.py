"""Class labels: what can be one, and how they are written down."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import column_or_1d

from svdkl.tables.column import read_array

Labels = npt.NDArray[Any]


def read_labels(labels: Any) -> Labels:
    """Labels as an array; those that are Python objects are all there, and all of them text or none."""
    labels = np.asarray(labels)
    if labels.dtype.kind == "T":
        labels = labels.astype(object)
    labels = column_or_1d(labels, warn=True)
    if labels.dtype.kind != "O":
        return labels
    column = read_array("y", labels)
    if column.missing is not None:
        raise ValueError(
            f"Expected a label in all rows, got {int(column.missing.sum())} missing ones (Input y contains NaN): drop "
            f"these rows first."
        )
    if column.storage == "text" and not all(isinstance(label, str) for label in labels.tolist()):
        raise ValueError("Expected labels of one kind, got text beside other values: convert all of them to text.")
    return labels


def labels_to_json(labels: Labels) -> dict[str, Any]:
    """Labels with their type."""
    kind = "text" if labels.dtype.kind == "O" else labels.dtype.str
    if labels.dtype.kind not in "OUbiuf" or (kind == "text" and not all(isinstance(label, str) for label in labels)):
        raise ValueError("Expected classes that are numbers, booleans or text to save them, got other objects.")
    return {"type": kind, "values": labels.tolist()}


def labels_from_json(data: dict[str, Any]) -> Labels:
    """The labels that :func:`labels_to_json` was given."""
    return np.array(data["values"], dtype=object if data["type"] == "text" else np.dtype(data["type"]))
