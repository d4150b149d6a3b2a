"""The values of a column as Python objects."""

import numpy as np

from svdkl.tables.column import Column


def listed(column: Column) -> list:
    """The values of a column, None where missing; checks that codes and mask of text agree."""
    missing = np.zeros(len(column.values), bool) if column.missing is None else column.missing
    assert column.missing is None or missing.any()
    values = column.values.tolist()
    if column.storage in ("text", "category"):
        assert (missing == (column.values < 0)).all()
        values = [column.labels[code] if code >= 0 else None for code in values]
    return [None if absent else value for value, absent in zip(values, missing, strict=True)]
