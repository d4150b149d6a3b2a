"""What an estimator is given as X: any table, or an array for a network of the user's own."""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_array, validate_data

from svdkl.features.pixels import reads_bytes
from svdkl.tabular.columns import open_table
from svdkl.tabular.values import Column

Index = npt.NDArray[np.int64]


def read_table(estimator: Any, X: Any, reset: bool) -> Any:
    """A table of at least one row, with the columns that the estimator was fitted on, or that it will know from now on.

    Frames stay what they are; everything else becomes an array. Cells are not looked at: the encoder does that.
    """
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
    if table.named:
        return X
    array = np.asarray(X)
    if array.dtype.kind == "U" and not isinstance(X, np.ndarray):
        array = np.asarray(X, dtype=object)  # numpy has made text of the numbers beside text
    return array


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
    return int(X.shape[0])


def take_rows(X: Any, rows: Index | slice) -> Any:
    """Some rows of a table of any library, in this order."""
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
        keys = [_key(table.read(i)) for i in range(len(table.names))]
    keys += [array.astype(np.float64) for array in beside if array is not None]
    rows = np.concatenate([np.ascontiguousarray(key.reshape(len(key), -1)).view(np.uint8) for key in keys], 1)
    return rows.view(np.dtype((np.void, rows.shape[1]))).ravel().argsort(kind="stable")


def _key(column: Column) -> npt.NDArray[np.float64]:
    """One number a row: equal where the values are."""
    values = column.values
    if column.storage in ("text", "category"):
        ranks = np.append(np.argsort(np.argsort(np.array([*column.labels, ""], dtype=object)))[:-1], -1)
        values = ranks[values]
    elif column.storage == "time":
        values = values.astype(np.int64)
    numbers = values.astype(np.float64)
    if column.missing is not None:
        numbers = np.where(column.missing, np.nan, numbers)
    return numbers[:, None]
