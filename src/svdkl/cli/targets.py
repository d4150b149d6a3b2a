"""The rows of a file that have a target, as a model knows it: the place of a class, or a number."""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from svdkl.cli.matching import MatchedFile

Array = npt.NDArray[Any]


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
    from svdkl.tabular.chunks import plain_column

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

    from svdkl.tabular.values import written

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
