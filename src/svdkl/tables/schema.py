"""Describe how each column of a table is encoded, by frozen values that can be written as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from svdkl.tables.layout import Codes, Feature, Flag, Number, check_increasing, record_from_json, record_to_json
from svdkl.tables.numbers import PARTS


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers, scaled by :func:`~svdkl.tables.numbers.compress`.

    Attributes
    ----------
    varies
        Whether there are two different numbers. If not, the column tells only which values are missing.
    edges, levels
        Edges of the bins, and frequent values, both scaled.
    missing
        Whether values were missing; then a flag says where they are.
    """

    name: str
    varies: bool
    centre: float
    scale: float
    edges: tuple[float, ...]
    levels: tuple[float, ...]
    missing: bool
    kind: ClassVar[str] = "number"

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return self.varies + self.missing

    def check(self) -> None:
        """Refuse values that only a damaged file holds."""
        _check_scale(self.name, self.scale)
        check_increasing(self.name, self.edges, self.levels)


@dataclass(frozen=True)
class BooleanColumn:
    """A column of booleans; ``usual``, the more frequent of the two, takes the place of missing ones."""

    name: str
    varies: bool
    usual: bool
    missing: bool
    kind: ClassVar[str] = "boolean"

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return self.varies + self.missing


@dataclass(frozen=True)
class CategoryColumn:
    """A column of categories: code 0 for rare and unknown values, one for each label, one for missing values if any."""

    name: str
    labels: tuple[str, ...]
    missing: bool
    kind: ClassVar[str] = "category"
    width: ClassVar[int] = 1

    @property
    def missing_code(self) -> int:
        """The code of missing values: 0, as for unknown ones, if none were missing."""
        return len(self.labels) + 1 if self.missing else 0

    @property
    def cardinality(self) -> int:
        """The number of codes."""
        return 1 + len(self.labels) + self.missing


@dataclass(frozen=True)
class TimePart:
    """A part of a time, such as its hour, as a scaled number (see :mod:`svdkl.tables.numbers`)."""

    part: str
    centre: float
    scale: float
    edges: tuple[float, ...]
    levels: tuple[float, ...]
    kind: ClassVar[str] = "time part"

    def check(self) -> None:
        """Refuse values that only a damaged file holds."""
        _check_scale(self.part, self.scale)
        check_increasing(self.part, self.edges, self.levels)
        if self.part not in PARTS:
            raise ValueError(f"Expected a part of a time out of {', '.join(PARTS)}, got {self.part!r}.")


@dataclass(frozen=True)
class TimeColumn:
    """A column of times, encoded by the parts that vary."""

    name: str
    parts: tuple[TimePart, ...]
    missing: bool
    kind: ClassVar[str] = "time"

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return len(self.parts) + self.missing


@dataclass(frozen=True)
class IgnoredColumn:
    """A column that is left out, and the reason."""

    name: str
    reason: str
    kind: ClassVar[str] = "ignored"
    width: ClassVar[int] = 0


ColumnSchema = NumberColumn | BooleanColumn | CategoryColumn | TimeColumn | IgnoredColumn


@dataclass(frozen=True)
class Schema:
    """The columns of a table in their order; ``named`` says whether the table had names of its own."""

    columns: tuple[ColumnSchema, ...]
    named: bool

    def features(self, max_onehot: int) -> tuple[Feature, ...]:
        """List the encoded columns of the whole table."""
        features: list[Feature] = []
        for column in self.columns:
            match column:
                case NumberColumn(varies=True):
                    features.append(Number(column.name, column.edges, column.levels))
                case BooleanColumn(varies=True):
                    features.append(Flag(column.name))
                case TimeColumn():
                    features += [Number(f"{column.name} {part.part}", part.edges, part.levels) for part in column.parts]
                case CategoryColumn():
                    features.append(Codes(column.name, column.cardinality, column.cardinality <= max_onehot))
            if not isinstance(column, CategoryColumn | IgnoredColumn) and column.missing:
                features.append(Flag(f"{column.name} missing"))
        return tuple(features)

    def to_json(self) -> dict[str, Any]:
        """Write the schema as dictionaries, lists, texts, numbers and booleans."""
        return {"named": self.named, "columns": [record_to_json(column) for column in self.columns]}

    @classmethod
    def from_json(cls, data: Any) -> "Schema":
        """Read a schema that :meth:`to_json` has written."""
        if not isinstance(data, dict) or set(data) != {"named", "columns"} or not isinstance(data["named"], bool):
            raise ValueError("Expected a schema with 'named' and 'columns', got something else: the file is damaged.")
        if not isinstance(data["columns"], Sequence):
            raise ValueError("Expected the columns of a schema as a list, got something else: the file is damaged.")
        kinds = {column.kind: column for column in get_args(ColumnSchema)}
        return cls(tuple(record_from_json(kinds, column) for column in data["columns"]), data["named"])


def _check_scale(name: str, scale: float) -> None:
    if not scale > 0:
        raise ValueError(f"Expected a scale above 0 for {name!r}, got {scale}.")


def encoding_in_words(column: ColumnSchema, max_onehot: int) -> str:
    """Say in words how a column is encoded for the network."""
    match column:
        case NumberColumn(varies=True):
            words = ["scaled by quantiles"]
            words += [_count(len(column.edges) - 1, "bin")] * (len(column.edges) > 1)
            words += [_count(len(column.levels), "frequent value")] * bool(column.levels)
        case BooleanColumn(varies=True):
            words = ["0 or 1"]
        case CategoryColumn():
            words = [_count(len(column.labels), "category", "categories"), "rare and new ones share a code"]
            words += ["one-hot" if column.cardinality <= max_onehot else "embedded"]
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
