"""What was learned of each column of a table: frozen values that are plain JSON when written down.

What an encoder makes of a column, for people to read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from svdkl.tables.layout import Codes, Feature, Flag, Number, record_from_json, record_to_json
from svdkl.tables.numbers import PARTS


@dataclass(frozen=True)
class NumberColumn:
    """Numbers, scaled by :func:`~svdkl.tables.numbers.compress`.

    Attributes
    ----------
    varies
        Whether there are two different numbers. If not, all that the column tells is where it is missing.
    edges, levels
        Of the bins, and the frequent values, in scaled coordinates.
    missing
        Whether values were missing, so that a flag says where they are.
    """

    name: str
    varies: bool
    centre: float
    scale: float
    edges: tuple[float, ...]
    levels: tuple[float, ...]
    missing: bool
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        _check_scale(self.name, self.scale)

    def features(self, max_onehot: int) -> list[Feature]:
        """The encoded columns."""
        return [Number(self.name, self.edges, self.levels)] * self.varies + _missing_flag(self)


@dataclass(frozen=True)
class BooleanColumn:
    """Booleans; ``usual``, the more frequent of the two, stands in for missing ones."""

    name: str
    varies: bool
    usual: bool
    missing: bool
    kind: ClassVar[str] = "boolean"

    def features(self, max_onehot: int) -> list[Feature]:
        """The encoded columns."""
        return [Flag(self.name)] * self.varies + _missing_flag(self)


@dataclass(frozen=True)
class CategoryColumn:
    """Categories: code 0 for rare and unknown values, then one for each label, then one for missing values if there
    were any.
    """

    name: str
    labels: tuple[str, ...]
    missing: bool
    kind: ClassVar[str] = "category"

    @property
    def missing_code(self) -> int:
        """The code of missing values: that of unknown ones if none were missing."""
        return len(self.labels) + 1 if self.missing else 0

    def features(self, max_onehot: int) -> list[Feature]:
        """The encoded columns."""
        cardinality = 1 + len(self.labels) + self.missing
        return [Codes(self.name, cardinality, cardinality <= max_onehot)]


@dataclass(frozen=True)
class TimePart:
    """A number read off a time (:mod:`svdkl.tables.numbers`), scaled as numbers are."""

    part: str
    centre: float
    scale: float
    edges: tuple[float, ...]
    levels: tuple[float, ...]
    kind: ClassVar[str] = "time part"

    def __post_init__(self) -> None:
        _check_scale(self.part, self.scale)
        if self.part not in PARTS:
            raise ValueError(f"Expected a part of a time out of {', '.join(PARTS)}, got {self.part!r}.")


@dataclass(frozen=True)
class TimeColumn:
    """Times, as those parts of them that vary."""

    name: str
    parts: tuple[TimePart, ...]
    missing: bool
    kind: ClassVar[str] = "time"

    def features(self, max_onehot: int) -> list[Feature]:
        """The encoded columns."""
        return [Number(f"{self.name} {part.part}", part.edges, part.levels) for part in self.parts] + _missing_flag(
            self
        )


@dataclass(frozen=True)
class IgnoredColumn:
    """A column that tells nothing, and why."""

    name: str
    reason: str
    kind: ClassVar[str] = "ignored"

    def features(self, max_onehot: int) -> list[Feature]:
        """The encoded columns: none."""
        return []


ColumnSchema = NumberColumn | BooleanColumn | CategoryColumn | TimeColumn | IgnoredColumn


@dataclass(frozen=True)
class Schema:
    """The columns of a table in their order; ``named`` tells whether the table had names of its own."""

    columns: tuple[ColumnSchema, ...]
    named: bool

    def features(self, max_onehot: int) -> tuple[Feature, ...]:
        """The encoded columns of all columns."""
        return tuple(feature for column in self.columns for feature in column.features(max_onehot))

    def to_json(self) -> dict[str, Any]:
        """Plain dictionaries, lists, texts, numbers and booleans."""
        return {"named": self.named, "columns": [record_to_json(column) for column in self.columns]}

    @classmethod
    def from_json(cls, data: Any) -> "Schema":
        """The schema that :meth:`to_json` was called on."""
        if not isinstance(data, dict) or set(data) != {"named", "columns"} or not isinstance(data["named"], bool):
            raise ValueError("Expected a schema with 'named' and 'columns', got something else: the file is damaged.")
        if not isinstance(data["columns"], Sequence):
            raise ValueError("Expected the columns of a schema as a list, got something else: the file is damaged.")
        kinds = {column.kind: column for column in get_args(ColumnSchema)}
        return cls(tuple(record_from_json(kinds, column) for column in data["columns"]), data["named"])


def _check_scale(name: str, scale: float) -> None:
    if not scale > 0:
        raise ValueError(f"Expected a scale above 0 for {name!r}, got {scale}.")


def _missing_flag(column: NumberColumn | BooleanColumn | TimeColumn) -> list[Feature]:
    return [Flag(f"{column.name} missing")] * column.missing


def encoding_in_words(column: ColumnSchema, max_onehot: int) -> str:
    """How a column is shown to the network."""
    match column:
        case NumberColumn(varies=True):
            words = ["scaled by quantiles"]
            words += [_count(len(column.edges) - 1, "bin")] * (len(column.edges) > 1)
            words += [_count(len(column.levels), "frequent value")] * bool(column.levels)
        case BooleanColumn(varies=True):
            words = ["0 or 1"]
        case CategoryColumn():
            size = 1 + len(column.labels) + column.missing
            words = [_count(len(column.labels), "category", "categories"), "rare and new ones share a code"]
            words += ["one-hot" if size <= max_onehot else "embedded"]
        case TimeColumn() if column.parts:
            words = ["as " + ", ".join(part.part for part in column.parts)]
        case IgnoredColumn():
            return f"not used: {column.reason}"
        case _:
            words = ["one value only"]
    if not isinstance(column, CategoryColumn) and column.missing:
        words.append("a flag for missing values")
    return "; ".join(words)


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
