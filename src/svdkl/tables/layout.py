"""Describe the columns of an encoded matrix by frozen values that can be written as JSON."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise
from typing import Any, ClassVar, get_args, get_type_hints


@dataclass(frozen=True)
class Number:
    """A column of scaled numbers; ``edges`` are those of its bins, ``levels`` its frequent values."""

    name: str
    edges: tuple[float, ...] = ()
    levels: tuple[float, ...] = ()
    kind: ClassVar[str] = "number"

    def check(self) -> None:
        """Refuse values that only a damaged file holds."""
        check_increasing(self.name, self.edges, self.levels)


@dataclass(frozen=True)
class Flag:
    """A column of 0 and 1."""

    name: str
    kind: ClassVar[str] = "flag"


@dataclass(frozen=True)
class Codes:
    """A column of whole numbers from 0 to ``cardinality`` - 1; 0 stands for all rare and unknown values."""

    name: str
    cardinality: int
    onehot: bool
    kind: ClassVar[str] = "codes"


Feature = Number | Flag | Codes


@dataclass(frozen=True)
class Layout:
    """The columns of an encoded matrix (rows, F)."""

    features: tuple[Feature, ...]

    def __len__(self) -> int:
        """Return the number of columns, F."""
        return len(self.features)

    def to_json(self) -> list[Any]:
        """Write the layout as lists, dictionaries, texts and numbers."""
        return [record_to_json(feature) for feature in self.features]

    @classmethod
    def from_json(cls, data: Any) -> "Layout":
        """Read a layout that :meth:`to_json` has written."""
        if not isinstance(data, list):
            raise ValueError(f"Expected a layout as a list of columns, got {type(data).__name__}.")
        return cls(tuple(record_from_json({kind.kind: kind for kind in get_args(Feature)}, part) for part in data))


def check_increasing(name: str, edges: tuple[float, ...], levels: tuple[float, ...]) -> None:
    """Refuse edges or levels of a number that do not increase."""
    if len(edges) == 1 or any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"Expected increasing edges of bins of {name!r}, or none, got {edges}.")
    if any(low >= high for low, high in pairwise(levels)):
        raise ValueError(f"Expected increasing levels of {name!r}, or none, got {levels}.")


def record_to_json(record: Any) -> dict[str, Any]:
    """Write a frozen dataclass as a dictionary with its kind first."""
    plain = {field.name: _to_plain(getattr(record, field.name)) for field in fields(record)}
    return {"kind": record.kind, **plain}


def _to_plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_plain(part) for part in value]
    return record_to_json(value) if is_dataclass(value) else value


def record_from_json(kinds: Mapping[str, type[Any]], data: Any) -> Any:
    """Read a dataclass from such a dictionary; refuse other keys and types, and what its ``check`` refuses."""
    if not isinstance(data, dict) or data.get("kind") not in kinds:
        got = repr(data.get("kind")) if isinstance(data, dict) else type(data).__name__
        raise ValueError(f"Expected a column of kind {', '.join(kinds)}, got {got}: the file is damaged or foreign.")
    record = kinds[data["kind"]]
    hints = get_type_hints(record)
    names = [field.name for field in fields(record)]
    if set(data) != {"kind", *names}:
        raise ValueError(
            f"Expected a column of kind {record.kind} to have {', '.join(names)}, got {', '.join(data)}: the file is "
            f"damaged or foreign."
        )
    read = record(**{name: _from_plain(hints[name], data[name], name) for name in names})
    if hasattr(read, "check"):
        read.check()
    return read


def _from_plain(hint: Any, value: Any, name: str) -> Any:
    if get_args(hint) and isinstance(value, list):
        return tuple(_from_plain(get_args(hint)[0], part, name) for part in value)
    if is_dataclass(hint):
        record: Any = hint
        return record_from_json({record.kind: record}, value)
    if hint is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if type(value) is not hint or hint is float:
        raise ValueError(f"Expected {name!r} to be {hint}, got {value!r}: the file is damaged or foreign.")
    return value
