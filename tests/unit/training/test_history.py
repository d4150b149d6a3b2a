"""The record of epochs on disk: what is there stays there, whatever happens."""

import json
from pathlib import Path

import pytest
from refusals import refused

from svdkl.training.history import Epoch, History


def epochs(path: Path) -> list[tuple[str, int, bool]]:
    told = map(json.loads, path.read_text().splitlines())
    return [(epoch["stage"], epoch["epoch"], epoch["kept"]) for epoch in told]


def test_marks_and_what_a_full_disk_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(tmp_path / "run" / "history.jsonl")
    for stage, number in (("network", 1), ("network", 2), ("joint", 1)):
        history.add(Epoch(stage, number, 0.5, 0.25, 1.0))
    history.keep("network", 2, 1)
    written = [("network", 1, False), ("network", 2, True), ("joint", 1, False)]
    assert epochs(history.path) == written
    assert [epoch.kept_to_scale for epoch in history.epochs] == [True, False, False]

    def full(path: Path, text: str) -> int:
        with path.open("w") as file:
            file.write(text[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    full_disk = "what was saved before is still there", "No space left"
    refused(lambda: history.keep("joint", 1, 1), *full_disk, error=OSError)
    assert epochs(history.path) == written
    assert [path.name for path in history.path.parent.iterdir()] == ["history.jsonl"]
