"""Several processes of this machine for one run, as torchrun would start them, with plainer words when one ends."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import IO, NoReturn

POLL = 0.2  # seconds
GRACE = 15.0  # that processes have to end by themselves after another has
LOST = 3  # exit code of a process that has lost another
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


def launch(arguments: Sequence[str], num_processes: int) -> int:
    """Run ``python -m svdkl ARGUMENTS`` in so many processes; the exit code is 0 if all went well.

    The first process speaks. What the others say is shown only if the run fails because of one of them.
    """
    with tempfile.TemporaryFile("w+") as aside, _ended_politely():
        port = _free_port()
        started = [_start(arguments, rank, num_processes, port, aside) for rank in range(num_processes)]
        try:
            _wait(started)
        except KeyboardInterrupt:  # which the processes get, too
            _wait_for_all(started)
            return 128 + signal.SIGINT
        finally:
            _end(started)
        return _verdict([process.returncode for process in started], aside)


def _start(arguments: Sequence[str], rank: int, size: int, port: int, aside: IO[str]) -> subprocess.Popen[bytes]:
    environment = {
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // size)),
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCH_CPP_LOG_LEVEL": "FATAL",  # gloo's own words about lost connections
    }
    output = None if rank == 0 else aside
    return subprocess.Popen(
        [sys.executable, "-m", "svdkl", *arguments],
        env=environment,
        stdout=output,
        stderr=output,
        preexec_fn=_die_with_parent if sys.platform == "linux" else None,
    )


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGTERM)


@contextlib.contextmanager
def _ended_politely() -> Iterator[None]:
    """SIGTERM ends the run as an error would, so that no process is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> NoReturn:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait(processes: list[subprocess.Popen[bytes]]) -> None:
    """Until all have ended; from the first failure on only a while."""
    while any(process.poll() is None for process in processes):
        if any(process.poll() for process in processes):
            _wait_for_all(processes)
            return
        time.sleep(POLL)


def _wait_for_all(processes: list[subprocess.Popen[bytes]]) -> None:
    until = time.monotonic() + GRACE
    while time.monotonic() < until and any(process.poll() is None for process in processes):
        time.sleep(POLL)


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()
    for process in processes:
        process.wait()


def _verdict(codes: list[int], aside: IO[str]) -> int:
    """The exit code of the run, and the words of the process that it is due to, if they were not heard yet."""
    killed = [rank for rank, code in enumerate(codes) if code < 0]
    failed = [rank for rank, code in enumerate(codes) if code not in (0, LOST) and code > 0]
    if failed:
        if 0 not in failed:
            aside.seek(0)
            lines = [line for line in aside if line.startswith(f"Process {failed[0]}: ")]
            sys.stderr.writelines(line.split(": ", 1)[1] for line in lines)
        return codes[failed[0]]
    if codes[0] == 0:  # the first writes the model: what ends others after that, on their way out, takes nothing away
        return 0
    if killed:
        print(
            f"Expected all {len(codes)} processes to go on, but process {killed[0]} was ended by signal "
            f"{-codes[killed[0]]}: what the last checkpoint holds is kept, go on with --resume.",
            file=sys.stderr,
        )
    return LOST


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
