"""The doctor: each finding where all is well, and where something is not."""

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from svdkl import doctor as checks
from svdkl.cli.doctor import doctor
from svdkl.doctor import CHECKS, FAIL, NOTE, OK, Finding, examine
from svdkl.estimators.classifier import SVDKLClassifier

ROOT = Path(__file__).parent.parent.parent
SLOW = ("self-test", "demo data")


@pytest.fixture
def fast(monkeypatch):
    for name in SLOW:
        monkeypatch.delitem(CHECKS, name)


def test_here_all_that_is_needed_works(fast):
    findings = list(examine())
    assert not [finding for finding in findings if finding.status == FAIL]
    by_name = {finding.name: finding for finding in findings}
    assert by_name["torch"].text == torch.__version__
    assert "agrees with the eager path" in by_name["fused kernel"].text
    assert by_name["distributed"].status in (OK, NOTE)
    assert all(finding.way_out for finding in findings if finding.status == NOTE and finding.name != "gpu")


def test_the_self_test_trains_saves_and_loads():
    (finding,) = checks._self_test()
    assert finding.status == OK
    assert "to the last bit" in finding.text


def test_the_self_test_sees_a_model_that_loads_otherwise(monkeypatch):
    load = SVDKLClassifier.load

    def damaged(path):
        model = load(path)
        with torch.no_grad():
            model.model_.head.mixing.bias.add_(torch.tensor([0.0, 1e-3]))
        return model

    monkeypatch.setattr(SVDKLClassifier, "load", damaged)
    (finding,) = checks._self_test()
    assert finding.status == FAIL
    assert "differs" in finding.text


def test_a_kernel_that_computes_something_else_fails(monkeypatch):
    def other(values, roots, positions, backend):
        return (positions[..., 0] + (backend == "eager"),) * 2

    monkeypatch.setattr(checks, "marginals", other)
    (finding,) = checks._fused_kernel()
    assert finding.status == FAIL
    assert finding.way_out


def test_missing_packages_fail_only_where_they_are_needed(monkeypatch):
    monkeypatch.setattr(checks, "version_of", lambda name: None if name in ("numba", "ray") else "1.0")
    found = {finding.name: finding for finding in checks._packages()}
    assert found["numba"].status == FAIL
    assert "pip install numba" in found["numba"].way_out
    assert found["ray"].status == NOTE
    assert found["torch"] == Finding("torch", OK, "1.0")


def test_the_packages_are_those_of_the_distribution():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [re.split(r"[>=]", needed)[0] for needed in project["dependencies"]] == list(checks.REQUIRED[1:])
    for use in checks.OPTIONAL.values():
        assert use.partition(": pip install ")[2]
        for extra in re.findall(r"svdkl\[(\w+)\]", use):
            assert extra in project["optional-dependencies"]


def test_no_place_for_the_compiled_kernel_is_a_note(monkeypatch):
    monkeypatch.setattr(checks.os, "access", lambda path, mode: False)
    (finding,) = checks._kernel_cache()
    assert finding.status == NOTE
    assert "NUMBA_CACHE_DIR" in finding.way_out


def test_a_check_that_breaks_is_a_finding(monkeypatch):
    def broken():
        raise np.linalg.LinAlgError("no convergence\nand more")

    monkeypatch.setattr(checks, "CHECKS", {"algebra": broken})
    (finding,) = examine()
    assert finding.status == FAIL
    assert finding.text == "LinAlgError: no convergence"


@pytest.mark.parametrize(("status", "code"), [(OK, 0), (NOTE, 0), (FAIL, 1)])
def test_the_exit_code_says_whether_all_is_well(status, code, monkeypatch):
    monkeypatch.setattr(checks, "CHECKS", {"one": lambda: iter([Finding("one", status, "what was seen", "a way out")])})
    assert doctor() == code
    app = typer.Typer()
    app.command()(doctor)
    said = json.loads(CliRunner().invoke(app, ["--json"]).stdout)
    assert said["healthy"] == (code == 0)
    assert said["findings"] == [{"name": "one", "status": status, "text": "what was seen", "way_out": "a way out"}]
