"""What an estimator is given as X: any table, or an array for a network of the user's own.

Weights of rows: a weight of k is k rows.

Rows on their way from a caller to tensors.

Which rows are held out of the fit, for early stopping and the held-out evidence.
"""

import sys
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_array, validate_data

from svdkl.nets.images import reads_bytes
from svdkl.tables.column import Column
from svdkl.tables.conversion import counts
from svdkl.tables.table import Table, open_table

Index = npt.NDArray[np.int64]

Weights = npt.NDArray[np.float64]

COUNTED_ROWS = 10_000  # up to so many rows, repeats included, whole weights are repeats of their rows


FEWEST_HELD_OUT = 10  # rows: fewer tell nothing about when to stop


def read_table(estimator: Any, X: Any, reset: bool) -> Table:
    """Open a table of at least one row, with the columns that the estimator was fitted on or will be; convert none."""
    X = _joined(X)
    table = open_table(X)
    if table.num_rows == 0:
        raise ValueError(
            f"Expected a table with at least one row, got 0 sample(s) (shape=(0, {len(table.names)})): check what "
            f"filtered them out."
        )
    validate_data(
        estimator, X if table.named else _Shaped(table.num_rows, len(table.names)), reset=reset, skip_check_array=True
    )
    return table


def read_numbers(estimator: Any, X: Any, reset: bool) -> npt.NDArray[Any]:
    """Rows of numbers of any shape, for a network that is not ours: float32, finite; bytes, if it reads bytes."""
    kept = [np.float32, np.uint8] if reads_bytes(estimator.net) else np.float32
    array = check_array(X, dtype=kept, allow_nd=True, input_name="X", estimator=estimator)
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    if reset:
        estimator.input_shape_ = array.shape[1:]
    elif array.shape[1:] != estimator.input_shape_:
        raise ValueError(
            f"Expected rows of shape {estimator.input_shape_}, as when it was fitted, got {array.shape[1:]}: bring "
            f"them into that shape."
        )
    return array


def _joined(X: Any) -> Any:
    """A batch of pyarrow as a table, whose names scikit-learn sees; all else as it is."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow.Table.from_batches([X]) if pyarrow is not None and isinstance(X, pyarrow.RecordBatch) else X


class _Shaped:
    """As much of an array as scikit-learn looks at to count its columns."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def __len__(self) -> int:
        return self.shape[0]


def num_rows(X: Any) -> int:
    """Rows of a table or array."""
    return X.num_rows if isinstance(X, Table) else int(X.shape[0])


def take_rows(X: Any, rows: Index | slice) -> Any:
    """Some rows of a table of any library, in this order."""
    if isinstance(X, Table):
        return X.part(rows.start, rows.stop) if isinstance(rows, slice) else X.take(rows)
    pandas, pyarrow = (sys.modules.get(name) for name in ("pandas", "pyarrow"))
    if pandas is not None and isinstance(X, pandas.DataFrame):
        return X.iloc[rows]
    if pyarrow is not None and isinstance(X, pyarrow.Table):
        return X.slice(rows.start, rows.stop - rows.start) if isinstance(rows, slice) else X.take(pyarrow.array(rows))
    return X[rows]


def order_of_content(X: Any, *beside: npt.NDArray[Any] | None) -> Index:
    """Positions that put rows into an order that depends on what they hold, not on where they stood."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "fiub":
        # Images stay bytes: at eight bytes a pixel they could fill the memory.
        keys = [X if X.dtype == np.uint8 and X.ndim > 2 else X.astype(np.float64)]
    else:
        table = open_table(X)
        keys = [_key(table.column(i)) for i in range(len(table.names))]
    keys += [array.astype(np.float64) for array in beside if array is not None]
    rows = np.concatenate([np.ascontiguousarray(key.reshape(len(key), -1)).view(np.uint8) for key in keys], 1)
    return rows.view(np.dtype((np.void, rows.shape[1]))).ravel().argsort(kind="stable")


def _key(column: Column) -> npt.NDArray[np.float64]:
    """One number a row: equal where the values are."""
    values = column.values
    if column.storage in ("text", "category"):
        labels = np.array([*column.labels, ""], dtype=object)  # the last one for missing rows
        held = np.append(counts(column) > 0, True)  # a rank must not depend on labels of other rows
        values = np.searchsorted(np.sort(labels[held]), labels)[values]
    elif column.storage == "time":
        values = values.astype(np.int64)
    numbers = values.astype(np.float64)
    if column.missing is not None:
        numbers = np.where(column.missing, np.nan, numbers)
    return numbers[:, None]


def read_weights(sample_weight: Any, num_rows: int) -> Weights | None:
    """One finite weight of at least 0 for each row, not all of them 0; None if there are none."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, Real):
        sample_weight = np.full(num_rows, sample_weight)
    weight = check_array(sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight")
    if weight.shape != (num_rows,):
        raise ValueError(
            f"Expected one sample weight for each of {num_rows} rows, got shape {weight.shape}: leave out what does "
            f"not belong to them."
        )
    if (weight < 0).any():
        raise ValueError(
            f"Expected sample weights of at least 0, got {weight.min()}: a row cannot count less than none."
        )
    if not weight.any():
        raise ValueError("Expected a sample weight above 0, got zero weight for all rows: give at least one row some.")
    return weight


def counted_rows(weight: Weights | None, num_rows: int) -> tuple[Index | None, Weights | None]:
    """Which rows to take, and the weights that they keep; None where nothing is to be done.

    Rows of weight 0 are left out. In small tables rows of whole weights are repeated, so that everything that follows
    (bins, held-out rows, minibatches) is, to the last bit, what it would be had the table held the repeats.
    """
    if weight is None:
        return None, None
    whole = bool((weight == np.floor(weight)).all()) and weight.sum() <= max(COUNTED_ROWS, num_rows)
    if whole:
        return np.repeat(np.arange(num_rows), weight.astype(np.int64)), None
    return np.flatnonzero(weight), weight[weight > 0]


def with_class_weight(
    class_weight: Any, classes: npt.NDArray[Any], codes: npt.NDArray[np.int64], weight: Weights | None
) -> Weights | None:
    """The weights of rows, times those of their classes."""
    if class_weight is None:
        return weight
    own: Weights = np.ones(len(codes)) if weight is None else weight
    amounts = np.bincount(codes, own, len(classes)).astype(np.float64)
    return np.multiply(own, class_factors(class_weight, classes, amounts)[codes])


def class_factors(class_weight: Any, classes: npt.NDArray[Any], amounts: Weights) -> Weights:
    """The factor on the rows of each class, of which there are such amounts: it shifts weight but adds none in all."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        of_class = np.divide(amounts.sum(), len(classes) * amounts, out=np.zeros_like(amounts), where=amounts > 0)
    elif isinstance(class_weight, dict):
        unknown = [label for label in class_weight if label not in classes.tolist()]
        if unknown:
            raise ValueError(
                f"Expected class_weight for the classes {', '.join(map(repr, classes.tolist()))}, got one for "
                f"{unknown[0]!r}: remove it."
            )
        of_class = np.array([class_weight.get(label, 1.0) for label in classes.tolist()], np.float64)
        if not (np.isfinite(of_class).all() and (of_class >= 0).all()):
            raise ValueError(f"Expected finite class weights of at least 0, got {class_weight!r}.")
    else:
        raise ValueError(f"Expected class_weight to be None, 'balanced' or a dict, got {class_weight!r}.")
    weighted = float(of_class @ amounts)
    if not weighted:
        raise ValueError(f"Expected a class weight above 0, got zero weight for all rows from {class_weight!r}.")
    # Preferring a class is no evidence: the posterior must not grow surer of it, nor the losses larger.
    return of_class * (amounts.sum() / weighted)


class Given(NamedTuple):
    """Rows as they were given: a table, checked targets, weights."""

    X: Any
    y: npt.NDArray[Any]
    weight: Weights | None

    def take(self, rows: Index) -> "Given":
        """These rows, in this order."""
        return Given(take_rows(self.X, rows), self.y[rows], None if self.weight is None else self.weight[rows])


def split(given: Given, fraction: float, seed: int) -> tuple[Given, Given | None]:
    """What to fit, and what to hold out, if anything."""
    codes = given.y if given.y.ndim == 1 else np.zeros(len(given.y), np.int64)
    parts = held_out_rows(codes, fraction, seed)
    return (given, None) if parts is None else (given.take(parts[0]), given.take(parts[1]))


def held_out_rows(codes: npt.NDArray[np.int64], fraction: float, seed: int) -> tuple[Index, Index] | None:
    """Rows to fit and rows to hold out, about that fraction of each class; None if the table is too small.

    Every class keeps a row to fit.
    """
    num_rows = len(codes)
    if round(fraction * num_rows) < FEWEST_HELD_OUT:
        return None
    rng = np.random.default_rng(seed)
    order = rng.permutation(num_rows)
    order = order[np.argsort(codes[order], kind="stable")]
    # Every so many rows along the classes, from a random place on.
    passed = np.floor(np.arange(num_rows + 1) * fraction + rng.random())
    held = np.empty(num_rows, np.bool_)
    held[order] = np.diff(passed) > 0
    classes, first = np.unique(codes, return_index=True)
    lost = np.setdiff1d(classes, codes[~held])
    held[first[np.isin(classes, lost)]] = False
    return np.flatnonzero(~held), np.flatnonzero(held)
