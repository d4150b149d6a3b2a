"""The rows that an estimator is given: a table that is opened once, targets and weights.

Small tables are put into an order that depends on what their rows hold, so that a model does not depend on where rows
stood. Some rows are held out of the fit, for early stopping and the held-out evidence.
"""

import sys
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_consistent_length, validate_data
from torch import nn

from svdkl.estimators.options import Options
from svdkl.estimators.targets import Array, Classes, Targets
from svdkl.estimators.weights import COUNTED_ROWS, Index, Weights, class_factors, counted_rows, read_weights
from svdkl.nets.images import reads_bytes
from svdkl.shapes import Tensor
from svdkl.tables.column import Column
from svdkl.tables.encoder import TabularEncoder
from svdkl.tables.table import Table, open_table

# A numpy array, a table of pandas, polars or pyarrow, or nested lists: opening it shows what it is.
TableLike = object

FEWEST_HELD_OUT = 10  # rows; fewer tell nothing about when to stop


class NumberRows:
    """Rows of numbers of any shape, for a network of the user's own, with the methods of a table."""

    def __init__(self, array: Array) -> None:
        self.array = array
        self.num_rows = len(array)

    def take(self, rows: Index) -> "NumberRows":
        """Return these rows, in this order."""
        return NumberRows(self.array[rows])

    def part(self, start: int, stop: int) -> "NumberRows":
        """Return the rows from ``start`` to before ``stop``."""
        return NumberRows(self.array[start:stop])

    cut = take  # numbers need no conversion, on which other rows could have a say


Inputs = Table | NumberRows


def encode(encoder: TabularEncoder | None, inputs: Inputs) -> Tensor:
    """Turn opened rows into a network's inputs; without an encoder, the network reads the numbers themselves."""
    if isinstance(inputs, NumberRows):
        return torch.from_numpy(np.require(inputs.array, requirements=["C", "W"]))  # torch warns of read-only arrays
    assert encoder is not None
    return encoder.transform(inputs)


@dataclass(frozen=True)
class Columns:
    """The columns of a table, against which another table is checked.

    Attributes
    ----------
    count
        How many there are; for rows of numbers of any shape, the length of their second axis.
    names
        Their names, if they have any.
    shape
        The shape of a row, for a network of the user's own.
    """

    count: int | None
    names: tuple[str, ...] | None
    shape: tuple[int, ...] | None = None


def read_inputs(
    X: TableLike, net: nn.Module | None, estimator: str, known: Columns | None = None
) -> tuple[Inputs, Columns]:
    """Open rows and check them against the columns that are known, if any are.

    Cells of a table are not looked at: the encoder does that.

    Parameters
    ----------
    net
        The network, if it is the user's own; it is given float32 numbers, or bytes if it reads bytes.
    estimator
        The name of the estimator, for scikit-learn's messages.
    """
    if net is None:
        pyarrow = sys.modules.get("pyarrow")
        if pyarrow is not None and isinstance(X, pyarrow.RecordBatch):
            X = pyarrow.Table.from_batches([X])  # scikit-learn sees no names in a batch
        table = open_table(X)
        if table.num_rows == 0:
            raise ValueError(
                f"Expected a table with at least one row, got 0 sample(s) (shape=(0, {len(table.names)})): check what "
                f"filtered them out."
            )
        shown = X if table.named else _Shaped(table.num_rows, len(table.names))
        return table, _columns(shown, None, estimator, known)
    kept = [np.float32, np.uint8] if reads_bytes(net) else np.float32
    array = check_array(X, dtype=kept, allow_nd=True, input_name="X", estimator=estimator)
    columns = _columns(X, array.shape[1:], estimator, known)
    if known is not None and array.shape[1:] != known.shape:
        raise ValueError(
            f"Expected rows of shape {known.shape}, as when it was fitted, got {array.shape[1:]}: bring them into that "
            f"shape."
        )
    return NumberRows(array), columns


class _Shaped:
    """A stand-in for an array, of which scikit-learn only looks at the shape."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def __len__(self) -> int:
        return self.shape[0]


def _columns(X: TableLike, shape: tuple[int, ...] | None, estimator: str, known: Columns | None) -> Columns:
    # scikit-learn notes columns on an estimator, whose class its messages name. A stand-in takes the notes, so that a
    # fit that fails leaves none behind.
    witness = type(estimator, (BaseEstimator,), {})()
    if known is not None and known.count is not None:
        witness.n_features_in_ = known.count
    if known is not None and known.names is not None:
        witness.feature_names_in_ = np.array(known.names, dtype=object)
    validate_data(witness, X, reset=known is None, skip_check_array=True)
    noted = vars(witness)
    names = tuple(noted["feature_names_in_"]) if "feature_names_in_" in noted else None
    return Columns(noted.get("n_features_in_"), names, shape)


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows with their targets and weights.

    Attributes
    ----------
    y
        Class numbers (N,), or targets (N, C) in their own units.
    """

    X: Inputs
    y: Array
    weight: Weights | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: Index) -> "Examples":
        """Return these rows, in this order."""
        return Examples(self.X.take(rows), self.y[rows], None if self.weight is None else self.weight[rows])

    def in_order_of_content(self) -> "Examples":
        """Return the rows in an order that depends on what they hold."""
        columns = [part.astype(np.float64) for part in (self.y, self.weight) if part is not None]
        keys = [*_keys(self.X), *columns]
        rows = np.concatenate([np.ascontiguousarray(key.reshape(len(key), -1)).view(np.uint8) for key in keys], 1)
        return self.take(rows.view(np.dtype((np.void, rows.shape[1]))).ravel().argsort(kind="stable"))

    def weighted_by(self, class_weight: object, targets: Classes) -> "Examples":
        """Return the rows with the weights of their classes."""
        own: Weights = np.ones(len(self)) if self.weight is None else self.weight
        amounts = np.bincount(self.y, own, targets.num_outputs).astype(np.float64)
        factors = class_factors(class_weight, targets.labels, amounts)
        return Examples(self.X, self.y, np.multiply(own, factors[self.y]))

    def hold_out(self, fraction: float, seed: int) -> tuple["Examples", "Examples | None"]:
        """Return the rows to fit and the rows to hold out, if there are enough."""
        codes = self.y if self.y.ndim == 1 else np.zeros(len(self), np.int64)
        parts = held_out_rows(codes, fraction, seed)
        return (self, None) if parts is None else (self.take(parts[0]), self.take(parts[1]))


class Learned(NamedTuple):
    """The columns and targets of a table, by which further rows are read."""

    columns: Columns
    targets: Targets


def read_examples(
    options: Options,
    kind: type[Targets],
    X: TableLike,
    y: object,
    sample_weight: object = None,
    known: Learned | None = None,
    labels: object = None,
) -> tuple[Examples, Learned]:
    """Read rows with their targets, leave out those of no weight, and put those of a small table into an order.

    Parameters
    ----------
    kind
        Whether targets are classes or real numbers.
    known
        What was learned of rows before; without it, these rows are the first.
    labels
        All labels that will come, if they are named.
    """
    if y is None:
        raise ValueError(
            f"Expected targets beside the table, got none: this {kind.estimator} estimator requires y to be passed, "
            f"but the target y is None."
        )
    inputs, columns = read_inputs(X, options.net, kind.estimator, None if known is None else known.columns)
    check_consistent_length(X, y)
    values, weight = np.asarray(y), None
    if sample_weight is not None:
        chosen, weight = counted_rows(read_weights(sample_weight, inputs.num_rows))
        inputs, values = inputs.cut(chosen), values[chosen]
    if known is None:
        targets: Targets = kind.learn(values, options, labels)
    else:
        targets, columns = known.targets, known.columns
        targets.check_same(labels)
    examples = Examples(inputs, targets.encode(values), weight)
    if known is None and len(examples) < 2:
        raise ValueError("Expected at least 2 rows to fit, got n_samples=1: one row shows nothing that varies.")
    if len(examples) <= COUNTED_ROWS:
        examples = examples.in_order_of_content()
    if isinstance(targets, Classes) and options.class_weight is not None:
        examples = examples.weighted_by(options.class_weight, targets)
    return examples, Learned(columns, targets)


def _keys(inputs: Inputs) -> list[Array]:
    """Return numbers a row that are equal where rows are."""
    if isinstance(inputs, Table):
        return [_key(inputs.column(place)) for place in range(len(inputs.names))]
    # Images stay bytes: at eight bytes a pixel they could fill the memory.
    array = inputs.array
    return [array if array.dtype == np.uint8 and array.ndim > 2 else array.astype(np.float64)]


def _key(column: Column) -> npt.NDArray[np.float64]:
    """Return a number for each row, equal where the values are."""
    values = column.values
    if column.storage in ("text", "category"):
        labels = np.array([*column.labels, ""], dtype=object)  # the last one for missing rows
        held = np.append(column.counts > 0, True)  # a rank must not depend on labels that no row has
        values = np.searchsorted(np.sort(labels[held]), labels)[values]
    elif column.storage == "time":
        values = values.astype(np.int64)
    numbers = values.astype(np.float64)
    if column.missing is not None:
        numbers = np.where(column.missing, np.nan, numbers)
    return numbers[:, None]


def held_out_rows(codes: npt.NDArray[np.int64], fraction: float, seed: int) -> tuple[Index, Index] | None:
    """Choose rows to fit and rows to hold out, about that fraction of each class; None if the table is too small.

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
