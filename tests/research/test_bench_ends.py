"""``svdkl bench`` that is told to end leaves no worker behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

LIMIT = 60.0  # seconds


def measurements(pid: int) -> list[int]:
    """The workers of a bench command."""
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


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds workers in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_measurement_as_well(number, tmp_path):
    arguments = ["-m", "svdkl", "bench", "--study", "import", "--repeats", "1000", "--out", str(tmp_path)]
    command = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + LIMIT
        while not (found := measurements(command.pid)):
            assert time.monotonic() < end
            assert command.poll() is None
            time.sleep(0.05)
        time.sleep(1.0)  # else the signal may come before Python has noted that the worker has started
        command.send_signal(number)
        assert command.wait(LIMIT) == 130
        end = time.monotonic() + LIMIT
        while any(map(is_running, found)):
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        command.kill()
        command.wait()
