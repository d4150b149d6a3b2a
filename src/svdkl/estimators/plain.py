"""Constructor arguments as plain JSON, and back."""

import json
from typing import Any

import numpy as np


def parameters_to_json(parameters: dict[str, Any]) -> dict[str, Any]:
    """Constructor arguments; those that only a program can make are left out or refused."""
    kept = dict(parameters)
    kept["net"] = None if kept["net"] is None else "custom"
    if isinstance(kept["random_state"], np.random.RandomState):
        kept["random_state"] = None  # its state has moved on since
    if isinstance(kept.get("class_weight"), dict):
        kept["class_weight"] = {"pairs": [[plain(k), plain(v)] for k, v in kept["class_weight"].items()]}
    kept["device"] = str(kept["device"])
    return {name: _checked(name, value) for name, value in kept.items()}


def parameters_from_json(data: dict[str, Any], net: Any) -> dict[str, Any]:
    """The constructor arguments again."""
    parameters = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    if isinstance(parameters.get("class_weight"), dict):
        parameters["class_weight"] = dict(data["class_weight"]["pairs"])
    parameters["net"] = net
    return parameters


def plain(value: Any) -> Any:
    """A value without numpy's types, tuples and arrays as lists; other objects as they are."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return [plain(part) for part in value] if isinstance(value, tuple | list) else value


def _checked(name: str, value: Any) -> Any:
    value = plain(value)
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Expected {name} to be a name or a number to save it, got {type(value).__name__}: objects are not stored."
        ) from error
    return value
