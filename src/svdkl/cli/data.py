"""The columns of a file against those that a model was fitted on.

The rows of a file that have a target, as a model knows it: the place of a class, or a number.
"""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svdkl.cli.output import say

SHOWN = 5  # names in a message

Array = npt.NDArray[Any]


class MatchedFile:
    """A file with all columns that a model needs, and perhaps others that are known.

    Parameters
    ----------
    estimator
        The fitted model.
    path
        Of the file.
    known
        Columns that may be there beside the model's: its target, those that were left out of the training, those that
        are copied or compared by.
    ignore_extra
        Whether all others may be there too.
    """

    def __init__(self, estimator: Any, path: Path, known: Sequence[str], ignore_extra: bool) -> None:
        from svdkl.tables.table_files import open_table_file

        if not hasattr(estimator, "feature_names_in_"):
            raise ValueError(
                "Expected a model that was fitted on a table with names, got one of nameless columns: use it from "
                "Python, or fit it on a table with names."
            )
        self.features: list[str] = estimator.feature_names_in_.tolist()
        self.file = open_table_file(path)
        lacking = [name for name in self.features if name not in self.file.names]
        if lacking:
            raise ValueError(
                f"Expected the columns that the model was fitted on, got {path} without {listed(lacking)}: add what is "
                f"missing, as empty columns if need be."
            )
        extra = [name for name in self.file.names if name not in {*self.features, *known}]
        if extra and not ignore_extra:
            raise ValueError(
                f"Expected only columns that the model knows, got {listed(extra)} in {path} too: leave them out with "
                f"--drop, or all such with --ignore-extra."
            )
        if extra:
            say(f"Ignored columns that the model does not know: {listed(extra)}.")

    def batches(self, beside: Sequence[str] = ()) -> Iterator[tuple[Any, Any]]:
        """Tables of the model's columns, in its order, and of others beside them; part by part."""
        wanted = [*self.features, *(name for name in dict.fromkeys(beside) if name not in self.features)]
        for table in self.file.batches(wanted):
            yield table.select(self.features), table.select(list(dict.fromkeys(beside)))


def known_columns(facts: dict[str, Any], *others: str | None) -> list[str]:
    """Columns that a model does not read but that are no surprise: its target, and what its training left out."""
    return [name for name in (facts.get("target"), *facts.get("dropped", ()), *others) if name is not None]


def listed(names: Sequence[str]) -> str:
    """The first few names."""
    shown = ", ".join(map(repr, names[:SHOWN]))
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown


class Rows(NamedTuple):
    """Some rows with targets."""

    X: Any
    y: Array
    beside: Any  # the target's column and others


def target_name(target: str | None, facts: dict[str, Any]) -> str:
    """The column of the targets: as given, else as the model was trained on."""
    name = target or facts.get("target")
    if not name:
        raise ValueError("Expected --target COL, since the model does not tell what it was trained on, got none.")
    return str(name)


def rows_with_targets(estimator: Any, file: MatchedFile, target: str, by: str | None = None) -> Iterator[Rows]:
    """The rows of a file, part by part. Those without a target are left out, with a warning at the end."""
    from svdkl.tables.parquet_files import plain_column

    lacking = found = 0
    for X, beside in file.batches([target] if by is None else [target, by]):
        absent = beside.column(target).is_null(nan_is_null=True).to_numpy()
        lacking += int(absent.sum())
        if absent.all():
            continue
        rows = np.flatnonzero(~absent)
        found += len(rows)
        X, beside = X.take(rows), beside.take(rows)
        column = plain_column(beside.column(target))
        yield Rows(X, _codes(estimator, column) if hasattr(estimator, "classes_") else _numbers(target, column), beside)
    if not found:
        raise ValueError(f"Expected rows with a value of {target!r}, got none: nothing can be compared with them.")
    if lacking:
        warnings.warn(f"Left out {lacking} row(s) without a value of {target!r}.", stacklevel=2)


def _codes(estimator: Any, column: Any) -> Array:
    """Places of labels among the classes; labels are the same if they are written the same."""
    import pyarrow.compute as pc

    from svdkl.tables.column import written

    places = {written(label): place for place, label in enumerate(estimator.classes_.tolist())}
    distinct = column.unique()
    labels = [written(label) for label in distinct.to_pylist()]
    unknown = [label for label in labels if label not in places]
    if unknown:
        raise ValueError(
            f"Expected targets out of the classes {', '.join(list(places)[:10])}, got {unknown[0]!r}: leave those rows "
            f"out, or train a model that knows it."
        )
    return np.array([places[label] for label in labels])[pc.index_in(column, distinct).to_numpy()]


def _numbers(target: str, column: Any) -> Array:
    import pyarrow as pa

    try:
        numbers = column.cast(pa.float64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"Expected numbers in the target {target!r}, got {column.type}: convert it.") from error
    if not np.isfinite(numbers).all():
        raise ValueError(f"Expected finite numbers in the target {target!r}, got others: leave those rows out.")
    return numbers
