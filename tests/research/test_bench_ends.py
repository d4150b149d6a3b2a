"""``svdkl bench`` that is told to end leaves no process behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

LIMIT = 60.0  # seconds


def measurements(pid: int) -> list[int]:
    """The processes that measure for a process."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children if "bench.child" in Path(f"/proc/{child}/cmdline").read_text()]
    except FileNotFoundError:  # one has just ended
        return []


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds child processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_measurement_as_well(number, tmp_path):
    command = [sys.executable, "-m", "svdkl", "bench", "--study", "import", "--repeats", "1000", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + LIMIT
        while not (found := measurements(process.pid)):
            assert time.monotonic() < end
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(LIMIT) == 130
        while any(map(is_running, found)):
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
