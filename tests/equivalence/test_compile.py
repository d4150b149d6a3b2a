"""torch.compile without graph breaks, and torch.export with a batch of any size, give what eager mode gives.

In processes of their own: checked shapes cannot be traced, and conftest.py has switched them on here. A process takes
several models, since it takes longer to start than to trace one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import svdkl

SCRIPTS = Path(__file__).parent / "scripts"
SEARCHED = (Path(svdkl.__file__).parents[1], Path(__file__).parents[1])  # the package as tested here, and tests/

LINES = {
    "two classes": {"num_outputs": 2},
    "three classes": {"num_outputs": 3},
    "gaussian": {"num_outputs": 2, "likelihood": "gaussian"},
}
LATTICES = {
    "planes": {"num_outputs": 3, "dims_per_gp": 2, "grid_size": 8},
    "ring, banded": {"num_outputs": 2, "prior": "circulant", "posterior": "banded"},
}
JOINT = {"joint": {"num_outputs": 3, "estimator": "joint"}}  # predicts as "three classes" does


def run(script: str, *arguments: str) -> None:
    path = os.pathsep.join(map(str, SEARCHED))
    environment = os.environ | {"SVDKL_UNCHECKED_SHAPES": "1", "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(
        [sys.executable, SCRIPTS / script, *arguments], env=environment, capture_output=True, text=True, timeout=300
    )
    assert finished.returncode == 0, finished.stderr[-3000:]


def test_elbo_compiled_by_inductor() -> None:
    run("compile_elbo.py", "inductor", json.dumps({"default": {"num_outputs": 2}}))  # no noise: inductor has its own


@pytest.mark.parametrize("models", [LINES | JOINT, LATTICES], ids=["lines", "lattices"])
def test_compiled_elbo(models: dict) -> None:
    run("compile_elbo.py", "aot_eager", json.dumps(models))


def test_exported_prediction() -> None:
    run("export_prediction.py", json.dumps(LINES | LATTICES))
