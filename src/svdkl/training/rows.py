"""Rows of data as contiguous tensors, and batches cut from them."""

from collections.abc import Iterator
from typing import NamedTuple

import torch

from svdkl.shapes import Tensor


class Rows(NamedTuple):
    """Inputs, targets and weights of the same rows."""

    x: Tensor
    y: Tensor
    weight: Tensor | None = None

    def take(self, index: Tensor) -> "Rows":
        """These rows, in this order."""
        return Rows(self.x[index], self.y[index], None if self.weight is None else self.weight[index])

    def __len__(self) -> int:
        return len(self.x)


def shuffled_batches(rows: Rows, batch_size: int, generator: torch.Generator) -> Iterator[Rows]:
    """Each row once, in random order; the last batch takes what is left."""
    for index in torch.randperm(len(rows.x), generator=generator).split(batch_size):
        yield rows.take(index)
