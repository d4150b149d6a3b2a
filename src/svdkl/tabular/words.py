"""What an encoder makes of a column, for people to read."""

from svdkl.tabular.schema import BooleanColumn, CategoryColumn, ColumnSchema, IgnoredColumn, NumberColumn, TimeColumn


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
