"""Several processes of this machine for one run, as torchrun would start them, with plainer words when one ends."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO

POLL = 0.2  # seconds
GRACE = 15.0  # that processes have to end by themselves after another has


def launch(arguments: Sequence[str], num_processes: int) -> int:
    """Run ``python -m svdkl ARGUMENTS`` in so many processes; the exit code is 0 if all went well.

    The first process speaks. What the others say is shown only if one of them is the first to fail.
    """
    with tempfile.TemporaryFile("w+") as aside:
        started = [
            _start(arguments, rank, num_processes, port, aside)
            for port in [_free_port()]
            for rank in range(num_processes)
        ]
        try:
            code = _wait(started, aside)
        except KeyboardInterrupt:  # which the processes get, too
            code = 130
        finally:
            _end(started)
    return code


def _start(arguments: Sequence[str], rank: int, size: int, port: int, aside: IO[str]) -> subprocess.Popen[bytes]:
    environment = {
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // size)),
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCH_CPP_LOG_LEVEL": "FATAL",  # gloo's own words about lost connections
    }
    output = None if rank == 0 else aside
    return subprocess.Popen([sys.executable, "-m", "svdkl", *arguments], env=environment, stdout=output, stderr=output)


def _wait(processes: list[subprocess.Popen[bytes]], aside: IO[str]) -> int:
    """Until all have ended, or one has failed."""
    while True:
        codes = [process.poll() for process in processes]
        killed = [rank for rank, code in enumerate(codes) if code is not None and code < 0]
        if killed:
            print(
                f"Expected all {len(processes)} processes to go on, but process {killed[0]} was ended by signal "
                f"{-(codes[killed[0]] or 0)}: what the last checkpoint holds is kept, go on with --resume.",
                file=sys.stderr,
            )
            return 1
        failed = [rank for rank, code in enumerate(codes) if code]
        if failed:
            if 0 not in failed:
                aside.seek(0)
                sys.stderr.write(aside.read())
            return codes[failed[0]] or 1
        if all(code == 0 for code in codes):
            return 0
        time.sleep(POLL)


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """Those that are left notice by themselves that one is lost; if not, they are ended."""
    until = time.monotonic() + GRACE
    while time.monotonic() < until and any(process.poll() is None for process in processes):
        time.sleep(POLL)
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
