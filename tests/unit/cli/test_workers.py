"""What several processes' ends come to."""

import os
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from svdkl.cli import workers as launching
from svdkl.cli.output import INTERRUPTED, LOST, InterruptedRun
from svdkl.cli.workers import _verdict

ASIDE = "Process 1: Expected a target, got none.\nsomething else\n"


@pytest.mark.parametrize(
    ("codes", "verdict", "words"),
    [
        ([0, 0], 0, ""),
        ([2, 2], 2, ""),  # the first has said it
        ([LOST, 2], 2, "Expected a target, got none."),
        ([LOST, -9], LOST, "process 1 was ended by signal 9"),
        ([-9, LOST], LOST, "process 0 was ended by signal 9"),
        ([LOST, LOST], LOST, ""),
        ([0, -6], 0, ""),  # the model had been written before
        ([0, LOST], 0, ""),
        ([0, 1], 0, ""),
        ([0, None], 0, ""),
        ([None, -11], LOST, "process 1 was ended by signal 11"),  # not the one that was ended here for it
        ([-9, -11], LOST, "process 0 was ended by signal 9"),
        ([-9, 2], 2, "Expected a target, got none."),
        ([None, LOST], LOST, "Expected a target, got none."),  # the first had no time to say anything
    ],
)
def test_verdict(codes, verdict, words, capsys):
    with tempfile.TemporaryFile("w+") as aside:
        aside.write(ASIDE)
        assert _verdict(codes, aside) == verdict
    said = capsys.readouterr().err
    assert words in said
    assert bool(said) == bool(words)


def test_words_that_are_not_for_users_are_shown_all_the_same(capsys):
    with tempfile.TemporaryFile("w+b") as raw, open(raw.fileno(), "w+", errors="replace", closefd=False) as aside:
        raw.write(b"Traceback (most recent call last):\nValueError: \xff\n")
        raw.flush()
        assert _verdict([LOST, 1], aside) == 1
    assert "Traceback" in capsys.readouterr().err


def start_instead(monkeypatch, script):
    """Processes that run a script of the test's."""

    def start(arguments, rank, *others):
        return subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "RANK": str(rank)})

    monkeypatch.setattr(launching, "_start", start)


def test_a_process_that_does_not_leave_is_ended(monkeypatch):
    """The first has written its model; another hangs on its way out."""
    start_instead(monkeypatch, "import os, time; time.sleep(60 * int(os.environ['RANK']))")
    monkeypatch.setattr(launching, "GRACE", 0.5)
    started = time.monotonic()
    assert launching.launch([], 2) == 0
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("code", [0, INTERRUPTED])
def test_an_interrupt_of_the_launcher_alone_reaches_all(monkeypatch, tmp_path, code):
    start_instead(
        monkeypatch,
        f"import os, pathlib, signal, sys, time\n"
        f"signal.signal(signal.SIGINT, lambda *_: sys.exit({code}))\n"
        f"pathlib.Path({str(tmp_path)!r}, os.environ['RANK']).touch()\n"
        f"time.sleep(60)",
    )
    monkeypatch.setattr(launching, "A_MOMENT", 0.1)

    def wait(processes):
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.05)
        raise KeyboardInterrupt

    monkeypatch.setattr(launching, "_wait", wait)
    started = time.monotonic()
    assert launching.launch([], 2) == code
    assert time.monotonic() - started < 30


def test_an_interrupt_that_the_first_process_does_not_answer(monkeypatch, tmp_path):
    ready = f"import pathlib; pathlib.Path({str(tmp_path)!r}, 'ready').touch()"
    start_instead(
        monkeypatch, f"import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); {ready}; time.sleep(60)"
    )
    monkeypatch.setattr(launching, "A_MOMENT", 0.1)
    monkeypatch.setattr(launching, "GRACE", 0.5)

    def wait(processes):
        while not list(tmp_path.iterdir()):
            time.sleep(0.05)
        raise KeyboardInterrupt

    monkeypatch.setattr(launching, "_wait", wait)
    with pytest.raises(InterruptedRun, match="--resume"):
        launching.launch([], 1)


def test_signals_are_left_alone_outside_of_the_main_thread(monkeypatch):
    start_instead(monkeypatch, "pass")
    codes = []
    thread = threading.Thread(target=lambda: codes.append(launching.launch([], 2)))
    thread.start()
    thread.join()
    assert codes == [0]


def test_an_interrupt_before_anything_has_started(monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(launching, "_start", interrupted)
    monkeypatch.setattr(launching, "A_MOMENT", 0.1)
    with pytest.raises(InterruptedRun, match="--resume"):
        launching.launch([], 2)
