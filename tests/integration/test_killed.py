"""A run of two processes, one of which is killed at a random moment: it says so, and goes on to the same model.

``SVDKL_KILLS`` says how many moments to try; ``make kills`` tries ten.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

KILLS = int(os.environ.get("SVDKL_KILLS", "2"))
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
ENVIRONMENT.pop("SVDKL_DATA", None)
OPTIONS = "--hidden 16 --num-features 4 --grid-size 8 --max-iter 6 --batch-size 64 --n-iter-no-change 99 --quiet"

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds child processes in /proc")


def start(data: Path, out: Path, *more: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "svdkl", "train", str(data), "--target", "label", "--out", str(out)]
    options = ["--nproc", "2", "--stream", *OPTIONS.split(), *more]
    return subprocess.Popen([*command, *options], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)


def children(process: subprocess.Popen) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 3))
    path = tmp_path_factory.mktemp("data") / "t.parquet"
    label = np.where(x[:, 0] * x[:, 1] > 0, "a", "b")
    pq.write_table(pa.table({"x": x[:, 0], "y": x[:, 1], "z": x[:, 2], "label": label}), path, row_group_size=500)
    return path


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory) -> tuple[bytes, float]:
    """The model of a run that nothing happens to, and the seconds that it takes."""
    out = tmp_path_factory.mktemp("whole") / "run"
    began = time.monotonic()
    with start(data, out) as process:
        errors = process.communicate(timeout=240)[1]
    assert process.returncode == 0, errors
    return (out / "model" / "model.safetensors").read_bytes(), time.monotonic() - began


@pytest.mark.parametrize("number", range(KILLS))
def test_killed(number, data, whole, tmp_path):
    expected, seconds = whole
    out = tmp_path / "run"
    random_moment = random.Random(number)
    with start(data, out) as process:
        if number == 0:  # certainly in the middle
            while process.poll() is None and not (out / "checkpoint.safetensors").exists():
                time.sleep(0.05)
            time.sleep(random_moment.uniform(0, 0.5))
        else:
            time.sleep(random_moment.uniform(0.3, 0.95) * seconds)
        pids = children(process)
        for pid in pids[number % 2 : number % 2 + 1]:
            os.kill(pid, signal.SIGKILL)
        errors = process.communicate(timeout=120)[1]
    assert number != 0 or process.returncode == 3
    if process.returncode != 0:  # else it was over before
        assert "Expected all 2 processes to go on" in errors
        assert "Traceback" not in errors
        assert number != 0 or (out / "checkpoint.safetensors").exists()
        with start(data, out, "--resume") as process:
            errors = process.communicate(timeout=240)[1]
        assert process.returncode == 0, errors
    assert (out / "model" / "model.safetensors").read_bytes() == expected
    assert not (out / "checkpoint.safetensors").exists()


def test_a_refusal_of_any_process_is_the_runs(data, tmp_path):
    """A missing target in a row group that the second process reads: its sentence is said, and no lost process."""
    table = pq.read_table(data)
    label = table.column("label").to_pylist()
    label[700] = None
    bad = tmp_path / "bad.parquet"
    pq.write_table(table.set_column(3, "label", pa.array(label)), bad, row_group_size=500)
    with start(bad, tmp_path / "run") as process:
        errors = process.communicate(timeout=240)[1]
    assert process.returncode == 2
    assert "1 missing values of 'label', the first in row 701" in errors
    assert not (tmp_path / "run").exists()
