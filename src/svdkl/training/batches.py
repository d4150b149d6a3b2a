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

EVALUATION_ROWS = 16_384  # at a time,
EVALUATION_NUMBERS = 2**20  # and of images as many as hold so many numbers: their layers are large


class Rows(NamedTuple):
    """Inputs, targets and weights of the same rows."""

    x: Tensor
    y: Tensor
    weight: Tensor | None = None
    part: Part | None = None  # where they stand in a batch that several processes share

    def take(self, index: Tensor | slice, part: Part | None = None) -> "Rows":
        """These rows, in this order."""
        return Rows(self.x[index], self.y[index], None if self.weight is None else self.weight[index], part)

    def to(self, device: torch.device) -> "Rows":
        """The same rows on a device."""
        weight = None if self.weight is None else self.weight.to(device)
        return Rows(self.x.to(device), self.y.to(device), weight, self.part)

    def fingerprint(self) -> int:
        """A number that other rows will not have."""
        number = 0
        for tensor in (self.x, self.y, self.weight):
            if tensor is not None:
                number = zlib.crc32(tensor.cpu().contiguous().numpy().data, number)
        return number

    def __len__(self) -> int:
        return len(self.x)


class Source(ABC):
    """Rows to train on, epoch by epoch. Epochs come out the same for the same seeds, whatever was read before."""

    num_rows: int  # N, of all processes
    device: torch.device
    waited: float = 0.0  # seconds that training has waited for rows so far

    @property
    def facts(self) -> dict[str, int]:
        """What tells a run on these rows from others."""
        return {"rows": self.num_rows}

    @abstractmethod
    def steps(self, batch_size: int) -> int:
        """Batches of an epoch."""

    @abstractmethod
    def batches(self, epoch: int, batch_size: int, generator: torch.Generator, workers: WorkerGroup) -> Iterator[Rows]:
        """The share of every batch of an epoch that is for this process; it may be empty in the last ones.

        Parameters
        ----------
        epoch
            Of the run.
        generator
            Seeded for this epoch alike in all workers.
        """

    @abstractmethod
    def targets(self) -> tuple[Tensor, Tensor | None]:
        """Targets and weights of the rows or, where they are too many, of a sample; the same in all workers."""

    @abstractmethod
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Inputs of so many random rows, the same in all workers."""

    @abstractmethod
    def mapped(self, function: Callable[[Tensor], Tensor]) -> "Source":
        """The same rows with a function of their inputs instead of them."""


class InMemory(Source):
    """Rows that are all there, as contiguous tensors."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.num_rows = len(rows)
        self.device = rows.x.device

    @property
    def facts(self) -> dict[str, int]:
        """Their number, and what they hold."""
        return {**super().facts, "fingerprint of the rows": self.rows.fingerprint()}

    def steps(self, batch_size: int) -> int:
        """Batches of an epoch, which goes through each row once."""
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
        """All of them."""
        return self.rows.y, self.rows.weight

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Inputs of so many random rows, or of all."""
        return self.rows.x[torch.randperm(len(self.rows), generator=generator)[:count]]

    def mapped(self, function: Callable[[Tensor], Tensor]) -> "InMemory":
        """Computed once."""
        return InMemory(map_rows(self.rows, function))


def _share(workers: WorkerGroup, count: int) -> slice:
    """A process's part of a batch; a batch that would leave one of them a single row is all for the first."""
    if count >= 2 * workers.size:
        return workers.share(count)
    return slice(0, count) if workers.first else slice(count, count)


def rows_at_once(x: Tensor) -> int:
    """How many rows to evaluate at a time."""
    return EVALUATION_ROWS if x.dim() < 3 else max(1, EVALUATION_NUMBERS // math.prod(x.shape[1:]))


@torch.no_grad()
def map_inputs(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of rows for all of them, a block at a time."""
    return torch.cat([function(block) for block in x.split(rows_at_once(x))])


def map_rows(rows: Rows, function: Callable[[Tensor], Tensor]) -> Rows:
    """The same rows with a function of their inputs."""
    return Rows(map_inputs(rows.x, function), rows.y, rows.weight, rows.part)
