"""Training rows from Parquet files of any size: a thread reads, encodes and shuffles ahead of the training.

An epoch takes row groups in a random order, a few of them at a time in turns, and shuffles what it has read from them
in a buffer. What an epoch holds depends only on its number, so a run that was cut off goes on with the same batches.
"""

import contextlib
import copy
import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import torch

from svdkl.gp.elbo import Part
from svdkl.shapes import Tensor
from svdkl.tables.parquet_files import Group, ParquetFiles
from svdkl.training.batches import Rows, Source
from svdkl.training.distributed import WorkerGroup
from svdkl.training.parquet_survey import BLOCK_ROWS, Positions, starts_of, within

EPOCH_ROWS = 2_000_000  # rows of an epoch: in larger files the model is scored and saved before a pass is over
OPEN_GROUPS = 4  # row groups read in turns, so that a buffer mixes rows from several places of the file
BUFFER_ROWS = 262_144  # rows shuffled together: some hundred batches
BUFFER_CELLS = 2**24  # numbers in a buffer at most, 64 MiB: fewer rows where rows are wide
AHEAD = 1  # full buffers that wait for the training: one suffices while reading is faster than training


class ParquetRows(Source):
    """The rows of Parquet files, except those that are held out.

    Parameters
    ----------
    encode
        A function from a table of these columns to rows.
    held_positions
        Positions of rows that are left out, in order.
    sample
        Some random rows, which stand for all where a few will do.
    epoch_rows
        About how many rows an epoch has, if the file has more.
    seed
        Seed of the order of row groups.
    """

    def __init__(
        self,
        files: ParquetFiles,
        columns: Sequence[str],
        encode: Callable[[pa.Table], Rows],
        held_positions: Positions,
        sample: Rows,
        epoch_rows: int,
        seed: int,
        device: torch.device,
        num_workers: int = 1,
    ) -> None:
        self.files, self.columns, self.encode = files, list(columns), encode
        self.held_positions = held_positions
        self.starts = starts_of(files.groups)
        held = np.diff(np.searchsorted(held_positions, self.starts))
        self.group_rows = np.array([group.rows for group in files.groups]) - held
        self.num_rows = int(self.group_rows.sum())
        self.groups_an_epoch = _groups_an_epoch(len(files.groups), epoch_rows / self.num_rows, num_workers)
        self.epoch_rows = round(self.num_rows * self.groups_an_epoch / len(files.groups))
        self.seed = seed
        self.device = device
        self._waits: list[float] = []
        self._sample = sample
        self._buffer_rows = min(BUFFER_ROWS, max(1, BUFFER_CELLS // max(1, sample.x.shape[1])))
        self._function: Callable[[Tensor], Tensor] | None = None

    @property
    def waited(self) -> float:  # type: ignore[override]
        """Seconds that training has waited for rows so far."""
        return sum(self._waits)

    @property
    def facts(self) -> dict[str, int]:
        """Rows, and how they are cut into epochs."""
        return {"rows": self.num_rows, "groups": len(self.files.groups), "groups_an_epoch": self.groups_an_epoch}

    def steps(self, batch_size: int) -> int:
        """Count the batches of an epoch, about: row groups need not be of one size."""
        return -(-self.epoch_rows // batch_size)

    def targets(self) -> tuple[Tensor, Tensor | None]:
        """Targets and weights of the sample."""
        return self._sample.y, self._sample.weight

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Inputs of random rows of the sample."""
        return self._sample.x[torch.randperm(len(self._sample), generator=generator)[:count]].to(self.device)

    def mapped(self, function: Callable[[Tensor], Tensor]) -> "ParquetRows":
        """Compute a function batch by batch: its values for all rows would not fit into memory either."""
        other = copy.copy(self)
        other._function = function
        return other

    def batches(self, epoch: int, batch_size: int, generator: torch.Generator, workers: WorkerGroup) -> Iterator[Rows]:
        """Rows of this worker's row groups, shuffled; all workers give the same number of batches."""
        if len(self.files.groups) < workers.size:
            raise ValueError(
                f"Expected a row group for each of {workers.size} processes, got {len(self.files.groups)} in "
                f"{self.files.path}: write it with smaller row groups, or use fewer processes."
            )
        chosen = self._groups_of(epoch)
        shares = [chosen[rank :: workers.size] for rank in range(workers.size)]
        bounds = [batch_size * rank // workers.size for rank in range(workers.size + 1)]
        sizes = [max(1, stop - start) for start, stop in itertools.pairwise(bounds)]
        counts = [int(self.group_rows[share].sum()) for share in shares]
        num_batches = max(-(-count // size) for count, size in zip(counts, sizes))
        own, start = sizes[workers.rank], bounds[workers.rank]
        seed = int(torch.randint(2**62, (), generator=generator))
        given = 0
        for rows in self._cut(self._ahead(shares[workers.rank], seed + workers.rank), own):
            given += 1
            yield self._finished(rows, Part(start, batch_size) if workers.size > 1 else None)
        for _ in range(num_batches - given):
            x = self._sample.x[:0]
            yield Rows(x, x)

    def _groups_of(self, epoch: int) -> list[int]:
        """Numbers of an epoch's row groups: one pass in random order after another, cut into epochs."""
        count, start = len(self.files.groups), epoch * self.groups_an_epoch
        stop = start + self.groups_an_epoch
        passes = range(start // count, -(-stop // count))
        order = np.concatenate([np.random.default_rng([self.seed, number]).permutation(count) for number in passes])
        return order[start - passes.start * count : stop - passes.start * count].tolist()

    def _finished(self, rows: Rows, part: Part | None) -> Rows:
        x, y, weight, _ = rows.to(self.device)
        if self._function is not None:
            with torch.no_grad():
                x = self._function(x)
        return Rows(x, y, weight, part)

    def _ahead(self, groups: Sequence[int], seed: int) -> Iterator[Rows]:
        """Shuffled buffers; a thread makes the next one while training uses the last."""
        made: queue.Queue[Rows | BaseException | None] = queue.Queue(AHEAD)
        stop = threading.Event()

        def put(item: Rows | BaseException | None) -> None:
            waiting = True
            while waiting and not stop.is_set():
                with contextlib.suppress(queue.Full):
                    made.put(item, timeout=0.2)
                    waiting = False

        def read() -> None:
            try:
                for buffer in self._buffers(groups, seed):
                    put(buffer)
                    if stop.is_set():
                        return
                put(None)
            except BaseException as error:
                put(error)

        thread = threading.Thread(target=read, name="svdkl-reader", daemon=True)
        thread.start()
        try:
            while True:
                began = time.perf_counter()
                item = made.get()
                self._waits.append(time.perf_counter() - began)
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stop.set()
            thread.join()

    def _buffers(self, groups: Sequence[int], seed: int) -> Iterator[Rows]:
        generator = torch.Generator().manual_seed(seed)
        held: list[Rows] = []
        for rows in self._in_turns(groups):
            held.append(rows)
            if sum(map(len, held)) >= self._buffer_rows:
                yield _shuffled(held, generator)
                held = []
        if held:
            yield _shuffled(held, generator)

    def _in_turns(self, groups: Sequence[int]) -> Iterator[Rows]:
        """Blocks of rows, from each open row group in turn."""
        waiting = deque(groups)
        opened: deque[Iterator[Rows]] = deque()
        while waiting or opened:
            while waiting and len(opened) < OPEN_GROUPS:
                number = waiting.popleft()
                opened.append(self._blocks(self.files.groups[number], int(self.starts[number])))
            rows = next(opened[0], None)
            if rows is None:
                opened.popleft()
            else:
                opened.rotate(-1)
                yield rows

    def _blocks(self, group: Group, start: int) -> Iterator[Rows]:
        for table in self.files.blocks(group, self.columns, BLOCK_ROWS):
            kept = np.ones(table.num_rows, np.bool_)
            kept[within(self.held_positions, start, table.num_rows)] = False
            start += table.num_rows
            if kept.any():
                yield self.encode(table if kept.all() else table.filter(pa.array(kept)))

    @staticmethod
    def _cut(buffers: Iterator[Rows], size: int) -> Iterator[Rows]:
        """Batches of one size; rows left over from a buffer go before the rows of the next."""
        rest: Rows | None = None
        for buffer in buffers:
            rows = buffer if rest is None else _joined([rest, buffer])
            whole = len(rows) - len(rows) % size
            for start in range(0, whole, size):
                yield rows.take(slice(start, start + size))
            rest = rows.take(slice(whole, len(rows)))
        if rest is not None and len(rest):
            yield rest


def _groups_an_epoch(count: int, share: float, num_workers: int) -> int:
    """Count the row groups of an epoch: all of them, or about that share, and then equally many for each worker."""
    wanted = max(num_workers, round(share * count))
    return count if wanted >= count else wanted - wanted % num_workers


def _joined(parts: Sequence[Rows]) -> Rows:
    weights = [part.weight for part in parts if part.weight is not None]
    return Rows(
        torch.cat([part.x for part in parts]),
        torch.cat([part.y for part in parts]),
        torch.cat(weights) if weights else None,
    )


def _shuffled(parts: Sequence[Rows], generator: torch.Generator) -> Rows:
    rows = _joined(parts)
    return rows.take(torch.randperm(len(rows), generator=generator))
