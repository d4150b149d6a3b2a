"""Rows on their way from a caller to tensors."""

from typing import Any, NamedTuple

import numpy.typing as npt

from svdkl.estimators.inputs import Index, take_rows
from svdkl.estimators.weights import Weights


class Given(NamedTuple):
    """Rows as they were given: a table, checked targets, weights."""

    X: Any
    y: npt.NDArray[Any]
    weight: Weights | None

    def take(self, rows: Index) -> "Given":
        """These rows, in this order."""
        return Given(take_rows(self.X, rows), self.y[rows], None if self.weight is None else self.weight[rows])
