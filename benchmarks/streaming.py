"""Training and prediction on a table that is larger than what they may hold: peak memory, and time spent waiting.

``python benchmarks/streaming.py`` makes a folder of Parquet files (50 million rows of 20 columns, about 3 GB, in a
temporary folder unless ``--folder`` names one to keep), trains on it for a fixed number of steps and predicts rows of
it, each by the command line in a process of its own.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import measure
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MEMORY_LIMIT, WAITING_LIMIT = 3.0, 0.05  # GiB resident; share of the training
FILE_ROWS, GROUP_ROWS = 5_000_000, 250_000
NUMBERS, CATEGORIES = 14, 5
KINDS = np.array([f"kind {i}" for i in range(40)])


def make_table(rows: int, seed: int) -> pa.Table:
    """Numbers and categories; the label depends on some of each."""
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal((NUMBERS, rows), dtype=np.float32)
    codes = rng.integers(0, len(KINDS), (CATEGORIES, rows), dtype=np.int8)
    columns: dict[str, Any] = {f"number {i}": values for i, values in enumerate(numbers)}
    for i, values in enumerate(codes):
        columns[f"category {i}"] = pa.DictionaryArray.from_arrays(values, KINDS)
    score = numbers[0] * numbers[1] + (codes[0] % 3 == 0) + 0.5 * rng.standard_normal(rows, dtype=np.float32)
    return pa.table({**columns, "label": pa.array(score > 0.5)})


def make_files(folder: Path, rows: int) -> None:
    """Files that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        path = folder / f"part-{number:03d}.parquet"
        if not path.exists():
            beside = path.with_suffix(".part")
            pq.write_table(make_table(min(FILE_ROWS, rows - start), number), beside, row_group_size=GROUP_ROWS)
            beside.rename(path)


def run(*arguments: str) -> tuple[dict[str, Any], float, float]:
    """The JSON that ``svdkl`` prints, its peak memory in GiB and its seconds."""
    began = time.perf_counter()
    read, write = os.pipe()
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "svdkl", *arguments, "--json"],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, write, 1), (os.POSIX_SPAWN_CLOSE, read)],
    )
    os.close(write)
    with os.fdopen(read) as output:
        text = output.read()
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"svdkl {' '.join(arguments)} ended with {os.waitstatus_to_exitcode(status)}")
    return json.loads(text), usage.ru_maxrss / 2**20, time.perf_counter() - began


def measured(folder: Path, scratch: Path, steps: int, predicted: int) -> dict[str, Any]:
    """One training run and one prediction."""
    epochs, batch = 3, 2048
    rows = steps * batch // epochs
    options = ["--stream", "--epoch-rows", str(rows), "--max-iter", str(epochs), "--batch-size", str(batch), "--quiet"]
    facts, memory, seconds = run("train", str(folder), "--target", "label", "--out", str(scratch / "run"), *options)
    share = facts["waited_seconds"] / facts["epoch_seconds"]
    print(f"train: {facts['rows']:,} rows, peak {memory:.2f} GiB (limit {MEMORY_LIMIT}), {seconds:.0f} s in all;")
    print(f"  waiting for rows {share:.1%} of the epochs' time (limit {WAITING_LIMIT:.0%})")
    parts = sorted(folder.glob("*.parquet"))
    source = folder if predicted >= FILE_ROWS * len(parts) else parts[0]
    out, predict_memory, predict_seconds = run(
        "predict", str(scratch / "run"), str(source), "--out", str(scratch / "predicted.parquet")
    )
    print(
        f"predict: {out['rows']:,} rows, peak {predict_memory:.2f} GiB (limit {MEMORY_LIMIT}), "
        f"{out['rows'] / predict_seconds:,.0f} rows/s"
    )
    return {
        "rows": facts["rows"],
        "train": {"steps": steps, "peak_gib": memory, "seconds": seconds, "waiting_share": share, "facts": facts},
        "predict": {"rows": out["rows"], "peak_gib": predict_memory, "seconds": predict_seconds},
        "limits": {"peak_gib": MEMORY_LIMIT, "waiting_share": WAITING_LIMIT},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--predict-rows", type=int, default=FILE_ROWS, help="all, if that many; else one file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch) / "rows"
        make_files(folder, options.rows)
        result = measured(folder, Path(scratch), options.steps, options.predict_rows)
        measure.save("streaming", result)
    peak = max(result["train"]["peak_gib"], result["predict"]["peak_gib"])
    if peak > MEMORY_LIMIT or result["train"]["waiting_share"] > WAITING_LIMIT:
        raise SystemExit("over a limit")


if __name__ == "__main__":
    main()
