"""Values of options, from the text of a command line or the value of a configuration file."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """A kind of values: how help shows it, and its reader, which is told the name for its refusal."""

    shown: str
    read: Callable[[str, Any], Any]


def choice(*allowed: str) -> Kind:
    """One of these words."""

    def read(name: str, value: Any) -> str:
        if value not in allowed:
            raise ValueError(f"Expected {name} to be one of {', '.join(allowed)}, got {value!r}.")
        return str(value)

    return Kind("NAME", read)


def whole(*words: str) -> Kind:
    """A whole number of at least 1, or one of these words."""

    def read(name: str, value: Any) -> Any:
        if value in words:
            return value
        try:
            count = int(value) if isinstance(value, str) else value
        except ValueError:
            count = None
        if type(count) is not int or count < 1:
            either = "".join(f"{word} or " for word in words)
            raise ValueError(f"Expected {name} to be {either}a whole number of at least 1, got {value!r}.")
        return count

    return Kind("N", read)


def number(*words: str) -> Kind:
    """A finite number, or one of these words."""

    def read(name: str, value: Any) -> Any:
        if value in words:
            return value
        try:
            amount = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            amount = math.nan
        if not math.isfinite(amount):
            either = "".join(f"{word} or " for word in words)
            raise ValueError(f"Expected {name} to be {either}a number, got {value!r}.")
        return amount

    return Kind("N", read)


def _flag(name: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"Expected {name} to be true or false, got {value!r}.")
    return value


def _word(name: str, value: Any) -> str:
    """A word."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"Expected {name} to be a name, got {value!r}.")
    return value


def _names(name: str, value: Any) -> list[str]:
    """One name or a list of them."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise ValueError(f"Expected {name} to be a list of names, got {value!r}.")
    return names


def _seed(name: str, value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**32:
        raise ValueError(f"Expected {name} to be a whole number from 0 to 2^32 - 1, got {value!r}.")
    return value


def _sizes(name: str, value: Any) -> Any:
    """Whole numbers with commas between them, or auto."""
    if value == "auto":
        return value
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list | tuple) else [value]
    try:
        return tuple(whole().read(name, part) for part in parts)
    except ValueError:
        raise ValueError(f"Expected {name} to be auto or sizes of layers such as 256,256, got {value!r}.") from None


def _weights(name: str, value: Any) -> Any:
    """``balanced``, ``none``, or a weight for each label."""
    if value in (None, "none"):
        return None
    if value == "balanced":
        return value
    pairs = value
    if isinstance(value, str):
        pairs = dict(part.rpartition("=")[::2] for part in value.split(",")) if "=" in value else None
    if not isinstance(pairs, dict):
        raise ValueError(f"Expected {name} to be balanced, none or weights such as yes=2,no=1, got {value!r}.")
    return {_label(label): number().read(name, weight) for label, weight in pairs.items()}


def _label(label: Any) -> Any:
    """A label as it stands in a table: numbers and booleans are not text."""
    if not isinstance(label, str):
        return label
    try:
        return json.loads(label)
    except ValueError:
        return label


FLAG = Kind(" ", _flag)
WORD = Kind("NAME", _word)
NAMES = Kind("NAME ...", _names)
SEED = Kind("N", _seed)
SIZES = Kind("N,N,...", _sizes)
WEIGHTS = Kind("NAME", _weights)
