"""Several workers train one model together, by plain torch.distributed.

Each worker is a process of the operating system with the whole model and a share of every batch. The gradients of all
workers are summed and divided by the rows of the whole batch, which is the gradient that a single worker would have. So
nothing else in training depends on the number of workers: not the batch size that the user typed, not the KL's weight.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from svdkl.shapes import Tensor

T = TypeVar("T")
# A worker that does not answer for so long counts as lost: writing a file can take a while.
SILENCE = timedelta(minutes=30)


class LostProcessError(RuntimeError):
    """Another worker of the group has ended or does not answer."""


@dataclass(frozen=True)
class WorkerGroup:
    """The workers that train together, seen from one of them. A single worker sends nothing anywhere.

    Attributes
    ----------
    rank, size
        The number of this worker, and how many there are.
    """

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this worker is the one that writes files."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """The worker's contiguous part of so many things; the parts of all workers differ by one thing at most."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def mean_gradient(self, parameters: Sequence[nn.Parameter], loss: float, num_rows: int) -> float:
        """Replace the gradients of this worker's mean loss by the gradients of the mean over all workers' rows.

        Parameters
        ----------
        loss
            This worker's mean loss. If it is not finite, no worker takes a step.
        num_rows
            Rows that the mean was taken over; a worker without rows in the last batch takes part with 0.

        Returns
        -------
        float
            The mean loss over all rows.
        """
        if self.size == 1:
            return loss
        wanted = [p for p in parameters if p.requires_grad]
        dtype = max((p.dtype for p in wanted), key=lambda kind: torch.finfo(kind).bits)
        device = wanted[0].device
        # A parameter that the loss does not reach has no gradient in any worker, and must not get one of zeros.
        reached = [float(p.grad is not None) for p in wanted]
        total_loss = num_rows * loss if num_rows else 0.0
        numbers = torch.tensor([total_loss, num_rows, *reached], dtype=dtype, device=device)
        gradients = [
            torch.zeros(p.numel(), dtype=dtype, device=device)
            if p.grad is None
            else p.grad.flatten().to(dtype) * num_rows
            for p in wanted
        ]
        joined = torch.cat([numbers, *gradients])
        self._send(lambda: dist.all_reduce(joined))
        rows = float(joined[1])
        reached = joined[2 : len(numbers)].tolist()
        for p, by, gradient in zip(wanted, reached, joined[len(numbers) :].split([p.numel() for p in wanted])):
            p.grad = (gradient / rows).view_as(p).to(p.dtype) if by else None
        return float(joined[0]) / rows

    def sums(self, numbers: Sequence[float]) -> list[float]:
        """Sum each number over all workers."""
        if self.size == 1:
            return list(numbers)
        total = torch.tensor(numbers, dtype=torch.float64, device=_device())
        self._send(lambda: dist.all_reduce(total))
        return total.tolist()

    def gather(self, value: T) -> list[T]:
        """Collect a value from every worker, in the order of ranks."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        self._send(lambda: dist.all_gather_object(values, value))
        return values

    @torch.no_grad()
    def equalise(self, tensors: Iterable[Tensor]) -> None:
        """Give every worker the first one's numbers, to the last bit."""
        if self.size == 1:
            return
        for tensor in tensors:
            sent = tensor.to(_device()).contiguous()
            self._send(lambda sent=sent: dist.broadcast(sent, 0))  # type: ignore[misc]
            tensor.copy_(sent)

    def _send(self, collective: Callable[[], Any]) -> None:
        try:
            collective()
        except RuntimeError as error:  # torch's DistBackendError is one, too
            raise LostProcessError(
                f"Expected all {self.size} processes to go on, but process {self.rank} cannot reach another one any "
                f"more, so one has ended: what the last checkpoint holds is kept, go on with --resume."
            ) from error


ALONE = WorkerGroup()


def joined() -> WorkerGroup:
    """The group that this worker is in; a group of one if torch.distributed has none."""
    if dist.is_available() and dist.is_initialized():
        return WorkerGroup(dist.get_rank(), dist.get_world_size())
    return ALONE


@contextmanager
def group(device: str = "auto") -> Iterator[WorkerGroup]:
    """Join the group that exists, or the group that torchrun has started this worker for, or train alone.

    Workers talk through their GPUs where each of them has one. Where there are GPUs, a launcher has to say how many
    workers share them (LOCAL_WORLD_SIZE, as torchrun does).
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or (dist.is_available() and dist.is_initialized()):
        yield joined()
        return
    on_gpus = device != "cpu" and torch.cuda.device_count() > 0
    if on_gpus and "LOCAL_RANK" in os.environ and "LOCAL_WORLD_SIZE" not in os.environ:
        raise ValueError(
            "Expected LOCAL_WORLD_SIZE, the number of processes on this machine, beside LOCAL_RANK, got none: start "
            "them by torchrun, or set it."
        )
    cuda = on_gpus and int(os.environ.get("LOCAL_WORLD_SIZE", size)) <= torch.cuda.device_count()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    try:
        dist.init_process_group("nccl" if cuda else "gloo", timeout=SILENCE)
    except RuntimeError as error:
        raise LostProcessError(
            f"Expected {size} processes to meet at {os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}, "
            f"but not all came: start all of them once more, with --resume if a checkpoint was written."
        ) from error
    try:
        yield joined()
    finally:
        dist.destroy_process_group()


def restarted() -> bool:
    """Whether torchrun has started this worker once more, after another one had ended."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def _device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device()) if dist.get_backend() == "nccl" else torch.device("cpu")
