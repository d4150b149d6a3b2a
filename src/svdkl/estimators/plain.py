"""Labels and constructor arguments as plain JSON, and back."""

import json
from typing import Any

import numpy as np
import numpy.typing as npt


def labels_to_json(labels: npt.NDArray[Any]) -> dict[str, Any]:
    """Class labels with their type."""
    kind = "text" if labels.dtype.kind == "O" else labels.dtype.str
    if kind == "text" and not all(isinstance(label, str) for label in labels):
        raise ValueError("Expected classes that are numbers, booleans or text to save them, got other objects.")
    return {"type": kind, "values": labels.tolist()}


def labels_from_json(data: dict[str, Any]) -> npt.NDArray[Any]:
    """The labels that :func:`labels_to_json` was given."""
    return np.array(data["values"], dtype=object if data["type"] == "text" else np.dtype(data["type"]))


def parameters_to_json(parameters: dict[str, Any]) -> dict[str, Any]:
    """Constructor arguments; those that only a program can make are left out or refused."""
    plain = dict(parameters)
    plain["net"] = None if plain["net"] is None else "custom"
    if isinstance(plain["random_state"], np.random.RandomState):
        plain["random_state"] = None  # its state has moved on since
    if isinstance(plain.get("class_weight"), dict):
        plain["class_weight"] = {"pairs": [[_plain(k), _plain(v)] for k, v in plain["class_weight"].items()]}
    plain["device"] = str(plain["device"])
    return {name: _checked(name, value) for name, value in plain.items()}


def parameters_from_json(data: dict[str, Any], net: Any) -> dict[str, Any]:
    """The constructor arguments again."""
    parameters = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    if isinstance(parameters.get("class_weight"), dict):
        parameters["class_weight"] = dict(data["class_weight"]["pairs"])
    parameters["net"] = net
    return parameters


def _checked(name: str, value: Any) -> Any:
    value = _plain(value)
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Expected {name} to be a name or a number to save it, got {type(value).__name__}: objects are not stored."
        ) from error
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value
