"""Several processes of this machine that train one model, started as torchrun does, with plainer words when one ends.

A command that is told to end ends its processes first.
"""

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
from contextlib import contextmanager
from typing import IO

from svdkl.cli.output import INTERRUPTED, LOST, InterruptedRun

POLL = 0.2  # seconds between two looks at the processes: short for a person, long for a processor
A_MOMENT = 2.0  # seconds in which the interrupt of a terminal has reached all processes
GRACE = 60.0  # seconds to end by oneself after another process has: the first may be writing the model
DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux


@contextmanager
def ended_by_signals(sentence: str) -> Iterator[None]:
    """End what runs at SIGTERM or an interrupt; at an interrupt, this sentence says what is kept."""
    is_main = threading.current_thread() is threading.main_thread()  # no other may handle signals
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(INTERRUPTED)) if is_main else None
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRun(sentence) from None
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, before)


def launch(arguments: Sequence[str], num_processes: int) -> int:
    """Run ``python -m svdkl ARGUMENTS`` in several processes, and return 0 if the model was written.

    The first process speaks. What the others say is shown only if the run fails because of one of them.
    """
    kept = "Interrupted: what the last checkpoint holds is kept, go on with --resume."
    started: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryFile("w+", errors="replace") as aside, ended_by_signals(kept):
        port = _free_port()
        try:
            for rank in range(num_processes):  # a comprehension would forget the started ones if one fails to start
                started.append(_start(arguments, rank, num_processes, port, aside))  # noqa: PERF401
            _wait(started)
            codes = [process.poll() for process in started]  # while the rest still runs
        except KeyboardInterrupt:
            _interrupt(started)
            if not started or started[0].poll() is None:
                raise  # the first had no time to say what is kept
            return 0 if started[0].returncode == 0 else INTERRUPTED
        finally:
            _end(started)
        return _verdict(codes, aside)


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


def _wait(processes: list[subprocess.Popen[bytes]]) -> None:
    """Wait until all have ended, but only a while after one has failed or the first has ended."""
    while any(process.poll() is None for process in processes):
        if processes[0].poll() is not None or any(process.poll() for process in processes):
            _wait_for_all(processes, GRACE)
            return
        time.sleep(POLL)


def _interrupt(processes: list[subprocess.Popen[bytes]]) -> None:
    """Interrupt processes that were not: a terminal interrupts all, a program only the one that it knows."""
    _wait_for_all(processes, A_MOMENT)
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    _wait_for_all(processes, GRACE)


def _wait_for_all(processes: list[subprocess.Popen[bytes]], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(process.poll() is None for process in processes):
        time.sleep(POLL)


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()
    for process in processes:
        process.wait()


def _verdict(codes: Sequence[int | None], aside: IO[str]) -> int:
    """Return the exit code of the run, and print the words of the process that caused it, if nobody has seen them.

    Codes are those with which processes ended by themselves, None for those that had to be ended.
    """
    if codes[0] == 0:  # the first writes the model, so that later ends of others do no harm
        return 0
    ended = [(rank, code) for rank, code in enumerate(codes) if code is not None and code != 0]
    rank, code = min(ended, key=lambda end: (end[1] == LOST, end[1] < 0))  # the cause, if possible one that can say why
    ended_from_outside = code in (-signal.SIGKILL, -signal.SIGTERM)
    if rank > 0 and not ended_from_outside and (code != LOST or codes[0] is None):  # the first has said as much
        sys.stderr.writelines(_words(rank, aside))
    if code > 0:
        return code
    print(
        f"Expected all {len(codes)} processes to go on, but process {rank} was ended by signal {-code}: "
        f"what the last checkpoint holds is kept, go on with --resume.",
        file=sys.stderr,
    )
    return LOST


def _words(rank: int, aside: IO[str]) -> list[str]:
    """Return what a process has said to users, or all that was written aside."""
    aside.seek(0)
    lines = aside.readlines()
    prefix = f"Process {rank}: "
    said = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
    return said or [line for line in lines if not line.startswith("Process ")]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
