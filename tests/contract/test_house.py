"""The measures of the house stay within their limits: how far a call walks, how large and how entangled the package is.

Measured in a process of its own: checked shapes, which conftest.py has switched on here, walk through code of their
own. ``make house`` prints the same, and ``python tools/house --places`` says what was counted.
"""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import svdkl

HOUSE = Path(__file__).parents[2] / "tools" / "house"
LIMITS = runpy.run_path(str(HOUSE / "limits.py"))["LIMITS"]


@pytest.fixture(scope="module")
def measures() -> dict[str, dict]:
    environment = os.environ | {"PYTHONPATH": str(Path(svdkl.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    finished = subprocess.run(
        [sys.executable, HOUSE, "--json"], env=environment, capture_output=True, text=True, timeout=300
    )
    assert finished.stdout, finished.stderr[-3000:]
    return {measure["name"]: measure for measure in json.loads(finished.stdout)}


@pytest.mark.parametrize("name", LIMITS)
def test_measure(measures, name):
    value, counted = measures[name]["value"], measures[name]["counted"]
    assert value <= LIMITS[name], f"{value:g} are more than {LIMITS[name]:g}: {', '.join(counted[:20])}"


def test_every_measure_has_a_limit(measures):
    assert list(measures) == list(LIMITS)
