"""What several processes' ends come to."""

import tempfile

import pytest

from svdkl.training.launching import LOST, _verdict

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
    ],
)
def test_verdict(codes, verdict, words, capsys):
    with tempfile.TemporaryFile("w+") as aside:
        aside.write(ASIDE)
        assert _verdict(codes, aside) == verdict
    said = capsys.readouterr().err
    assert words in said
    assert bool(said) == bool(words)
