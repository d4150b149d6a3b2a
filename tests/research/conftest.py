"""What tests of the experiments share."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from digits import digits

from svdkl.nets.convnet import LeNet
from svdkl.training.config import EvidenceConfig, TrainingConfig
from svdkl_research.datasets import mnist
from svdkl_research.rivals.image_networks import BUDGETS, NETWORKS


@pytest.fixture(autouse=True)
def _few_evidence_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit the evidence in 20 steps: its 200 would take half the time of small fits, and tests here compare fits."""
    make = TrainingConfig.__init__

    def make_shorter(self: TrainingConfig, *values: Any, **options: Any) -> None:
        make(self, *values, **{"evidence_config": EvidenceConfig(steps=20), **options})

    monkeypatch.setattr(TrainingConfig, "__init__", make_shorter)


@pytest.fixture
def few_digits(tmp_path, monkeypatch):
    """A folder with 300 digits in the place of MNIST, and a small LeNet."""
    X, y = digits(28)
    fit, test = slice(0, 200), slice(200, 300)
    for counts, rows in (("TRAIN_COUNTS", fit), ("TEST_COUNTS", test)):
        monkeypatch.setattr(mnist, counts, tuple(np.bincount(y[rows], minlength=10).tolist()))
    arrays = {"x_train": X[fit, 0], "y_train": y[fit], "x_test": X[test, 0], "y_test": y[test]}
    np.savez(tmp_path / "mnist.npz", **arrays)
    monkeypatch.setitem(NETWORKS, "lenet", partial(LeNet, out_features=12))
    monkeypatch.setitem(BUDGETS, "mnist", replace(BUDGETS["mnist"], batch_size=16))
    return tmp_path


Entry = dict[str, Any]


@pytest.fixture
def edit_runs() -> Callable[..., None]:
    """A function that changes the lines of a runs.jsonl; a line that becomes None goes."""

    def edit(path: Path, change: Callable[[Entry], Entry | None]) -> None:
        entries = [change(json.loads(line)) for line in path.read_text().splitlines()]
        path.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries if entry is not None))

    return edit
