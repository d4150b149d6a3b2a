"""Where an optional package is not installed, a command says so in one sentence, and what needs it not goes on."""

import sys

import pytest

from svdkl import demo as demonstration
from svdkl import report
from svdkl.cli.app import main
from svdkl.demo import Budget


def said_in_one_line(captured: pytest.CaptureFixture[str]) -> str:
    (line,) = captured.readouterr().err.splitlines()
    return line


def test_the_report_needs_matplotlib(monkeypatch, capsys):
    monkeypatch.setattr(report, "find_spec", lambda name: None)
    assert main(["report", "model", "rows.csv"]) == 2
    assert said_in_one_line(capsys) == (
        "Expected the package matplotlib for the report, found it not installed: run pip install 'svdkl[report]'."
    )


def test_yaml_needs_pyyaml_and_toml_nothing(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("x,y\n1,a\n")
    (tmp_path / "run.yaml").write_text("target: y\n")
    (tmp_path / "run.toml").write_text('target = "z"\n')
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert main(["train", "rows.csv", "--config", "run.yaml", "--out", "run"]) == 2
    assert "Expected the package pyyaml for settings in the YAML file run.yaml" in (line := said_in_one_line(capsys))
    assert line.endswith("run pip install 'svdkl[yaml]'.")
    assert main(["train", "rows.csv", "--config", "run.toml", "--out", "run"]) == 2
    assert "'z'" in said_in_one_line(capsys)


def test_the_quick_demo_needs_no_further_package(monkeypatch, capsys, tmp_path):
    tiny = Budget(600, {"hidden": (16,), "num_features": 4, "grid_size": 8, "max_iter": 2, "evidence": False})
    monkeypatch.setattr(demonstration, "QUICK", tiny)
    monkeypatch.setattr(report, "find_spec", lambda name: None)
    assert main(["demo", "--quick", "--out", str(tmp_path / "demo")]) == 0
    said = capsys.readouterr()
    assert "There will be no report: Expected the package matplotlib" in said.err
    assert "svdkl evaluate" in said.out
    assert "report.html" not in said.out.partition("Then try:")[0]
    assert {file.name for file in (tmp_path / "demo").iterdir()} == {"model", "run.json", "test.parquet"}
