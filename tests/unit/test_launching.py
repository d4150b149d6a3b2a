"""What several processes' ends come to."""

import os
import subprocess
import sys
import tempfile
import time

import pytest

from svdkl.cli import launching
from svdkl.cli.launching import LOST, _verdict

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
        ([None, LOST], LOST, ""),
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


def test_a_process_that_does_not_leave_is_ended(monkeypatch):
    """The first has written its model; another hangs on its way out."""
    script = "import os, time; time.sleep(60 * int(os.environ['RANK']))"
    monkeypatch.setattr(launching, "GRACE", 0.5)

    def start(arguments, rank, *others):
        return subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "RANK": str(rank)})

    monkeypatch.setattr(launching, "_start", start)
    started = time.monotonic()
    assert launching.launch([], 2) == 0
    assert time.monotonic() - started < 30
