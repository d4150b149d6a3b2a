"""Rows of data, and where the batches of an epoch come from."""

import math
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from svdkl.gp.elbo import Part
from svdkl.shapes import Tensor
from svdkl.training.distributed import WorkerGroup

EVALUATION_ROWS = 16_384  # rows evaluated at a time, so that memory does not grow with the table
EVALUATION_NUMBERS = 2**20  # numbers in the images evaluated at a time: the layers of their networks are large


class Rows(NamedTuple):
    """Inputs, targets and weights of the same rows."""

    x: Tensor
    y: Tensor
    weight: Tensor | None = None
    part: Part | None = None  # where they stand in a batch that several workers share

    def take(self, index: Tensor | slice, part: Part | None = None) -> "Rows":
        """Choose rows, in the order of the index."""
        return Rows(self.x[index], self.y[index], None if self.weight is None else self.weight[index], part)

    def to(self, device: torch.device) -> "Rows":
        """Copy the rows to a device."""
        weight = None if self.weight is None else self.weight.to(device)
        return Rows(self.x.to(device), self.y.to(device), weight, self.part)

    def fingerprint(self) -> int:
        """A checksum of all numbers, by which other rows are told from these."""
        number = 0
        for tensor in (self.x, self.y, self.weight):
            if tensor is not None:
                number = zlib.crc32(tensor.cpu().contiguous().numpy().data, number)
        return number

    def __len__(self) -> int:
        return len(self.x)


class Source(ABC):
    """Rows to train on, epoch by epoch. An epoch depends on its number and the seed, not on what was read before."""

    num_rows: int  # N, of all workers together
    device: torch.device
    waited: float = 0.0  # seconds that training has waited for rows so far

    @property
    def facts(self) -> dict[str, int]:
        """Numbers by which a checkpoint knows a run on these rows from others."""
        return {"rows": self.num_rows}

    @abstractmethod
    def steps(self, batch_size: int) -> int:
        """Count the batches of an epoch."""

    @abstractmethod
    def batches(self, epoch: int, batch_size: int, generator: torch.Generator, workers: WorkerGroup) -> Iterator[Rows]:
        """The worker's share of every batch of an epoch; it may be empty in the last batches.

        Parameters
        ----------
        epoch
            The epoch's number in the run.
        generator
            A generator that all workers have seeded alike for this epoch.
        """

    @abstractmethod
    def targets(self) -> tuple[Tensor, Tensor | None]:
        """Targets and weights of all rows, or of a sample where they are too many; alike in all workers."""

    @abstractmethod
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Inputs of so many random rows, alike in all workers."""

    @abstractmethod
    def mapped(self, function: Callable[[Tensor], Tensor]) -> "Source":
        """Replace the inputs of all rows by a function of them."""


class InMemory(Source):
    """Rows in memory, as contiguous tensors."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.num_rows = len(rows)
        self.device = rows.x.device

    @property
    def facts(self) -> dict[str, int]:
        """The number of rows, and a checksum of what they hold."""
        return {**super().facts, "fingerprint of the rows": self.rows.fingerprint()}

    def steps(self, batch_size: int) -> int:
        """Count the batches of an epoch, which goes through each row once."""
        whole, left = divmod(len(self.rows), batch_size)
        return max(1, whole + (left > 1))

    def batches(self, epoch: int, batch_size: int, generator: torch.Generator, workers: WorkerGroup) -> Iterator[Rows]:
        """Each row once, in random order; the last batch takes what is left.

        A single row that is left joins the batch before it: networks that normalise over a batch cannot take it alone.
        """
        order = torch.randperm(len(self.rows), generator=generator)
        for index in order.tensor_split(torch.arange(1, self.steps(batch_size)) * batch_size):
            if workers.size == 1:
                yield self.rows.take(index)
            else:
                share = _share(workers, len(index))
                yield self.rows.take(index[share], Part(share.start, len(index)))

    def targets(self) -> tuple[Tensor, Tensor | None]:
        """Targets and weights of all rows."""
        return self.rows.y, self.rows.weight

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Inputs of so many random rows, or of all."""
        return self.rows.x[torch.randperm(len(self.rows), generator=generator)[:count]]

    def mapped(self, function: Callable[[Tensor], Tensor]) -> "InMemory":
        """Compute a function of all inputs once."""
        return InMemory(map_rows(self.rows, function))


def _share(workers: WorkerGroup, count: int) -> slice:
    """A worker's part of a batch; the first worker takes a batch that would leave another one a single row."""
    if count >= 2 * workers.size:
        return workers.share(count)
    return slice(0, count) if workers.first else slice(count, count)


def rows_at_once(x: Tensor) -> int:
    """Count how many rows to evaluate at a time."""
    return EVALUATION_ROWS if x.dim() < 3 else max(1, EVALUATION_NUMBERS // math.prod(x.shape[1:]))


@torch.no_grad()
def map_inputs(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a function to all rows, a block at a time."""
    return torch.cat([function(block) for block in x.split(rows_at_once(x))])


def map_rows(rows: Rows, function: Callable[[Tensor], Tensor]) -> Rows:
    """Replace the inputs of rows by a function of them."""
    return Rows(map_inputs(rows.x, function), rows.y, rows.weight, rows.part)
