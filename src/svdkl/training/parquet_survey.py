"""One pass over a table larger than memory, before training: it finds everything that encoding needs to know.

Scales, bins and categories are chosen from a uniform sample of rows, targets are counted in all rows, and the rows that
will be held out are kept. Each worker reads row groups of its own; all get the same survey.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from svdkl.tables.parquet_files import Group, ParquetFiles, plain_column, refuse_missing
from svdkl.training.distributed import WorkerGroup

Positions = npt.NDArray[np.int64]

SAMPLE_ROWS = 200_000  # rows that encodings are chosen from: quantiles hardly change with more
MOST_HELD_OUT = 100_000  # held-out rows: more add nothing to a score, or to a posterior of a few thousand numbers
BLOCK_ROWS = 32_768  # rows read at a time, so that a row group of any size fits into memory


class Survey(NamedTuple):
    """The findings of one pass.

    Attributes
    ----------
    sample, held_out
        Rows to choose an encoding from, and rows that are kept out of training; different rows of the file.
    held_positions
        Positions of the held-out rows in the file, in order.
    targets
        How often each value of the target occurs, if it was counted.
    """

    sample: pa.Table
    held_out: pa.Table
    held_positions: Positions
    targets: Counter[Any]


def starts_of(groups: Sequence[Group]) -> Positions:
    """The position in the table of each group's first row, and of the end."""
    return np.concatenate([[0], np.cumsum([group.rows for group in groups])]).astype(np.int64)


def survey(
    files: ParquetFiles,
    columns: Sequence[str],
    target: str,
    held_out_fraction: float,
    seed: int,
    workers: WorkerGroup,
    count_targets: bool,
) -> Survey:
    """Go through all rows once."""
    num_rows = files.num_rows
    num_held_out = min(MOST_HELD_OUT, round(held_out_fraction * num_rows))
    num_chosen = min(num_rows, num_held_out + SAMPLE_ROWS)
    chosen = np.random.default_rng(seed).choice(num_rows, num_chosen, replace=False)
    held_positions, sampled = np.sort(chosen[:num_held_out]), np.sort(chosen[num_held_out:])
    starts = starts_of(files.groups)
    own = [
        _read_group(files, files.groups[i], columns, target, int(starts[i]), (sampled, held_positions), count_targets)
        for i in range(workers.rank, len(files.groups), workers.size)
    ]
    # By turns, as the groups were given out: the order of rows does not depend on the number of workers.
    found = workers.gather(own)
    parts = [found[i % workers.size][i // workers.size] for i in range(len(files.groups))]
    targets: Counter[Any] = Counter()
    for _, _, counted in parts:
        targets.update(counted)
    empty = pa.schema([files.schema.field(name) for name in columns]).empty_table()
    sample, held_out = (pa.concat_tables([empty, *(part[k] for part in parts)]) for k in (0, 1))
    return Survey(sample, held_out, held_positions, targets)


def _read_group(
    files: ParquetFiles,
    group: Group,
    columns: Sequence[str],
    target: str,
    start: int,
    positions: tuple[Positions, Positions],
    count_targets: bool,
) -> tuple[pa.Table, pa.Table, Counter[Any]]:
    """The chosen rows of one group, and how often each target occurs in it."""
    taken: tuple[list[pa.Table], list[pa.Table]] = ([], [])
    targets: Counter[Any] = Counter()
    for table in files.blocks(group, columns, BLOCK_ROWS):
        column = table.column(target)
        refuse_missing(column, target, start)
        for rows, wanted in zip(taken, positions, strict=True):
            rows.append(table.take(pa.array(within(wanted, start, table.num_rows))))
        if count_targets:
            counted = pc.value_counts(plain_column(column).combine_chunks())
            targets.update(dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist())))
        start += table.num_rows
    return pa.concat_tables(taken[0]), pa.concat_tables(taken[1]), targets


def within(positions: Positions, start: int, count: int) -> Positions:
    """Choose the sorted positions among ``count`` rows from ``start`` on, and count them from there."""
    first, last = np.searchsorted(positions, [start, start + count])
    return positions[first:last] - start
