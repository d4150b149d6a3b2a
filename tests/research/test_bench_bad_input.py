"""What ``svdkl bench`` refuses: one sentence on standard error, exit code 2, nothing written."""

import shlex
from pathlib import Path

import pytest

from svdkl.cli.app import main


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ("--study speed", ("--study", "step", "'speed'")),
        ("--rows 0", ("--rows", "svdkl bench --help")),
        ("--repeats few", ("--repeats", "svdkl bench --help")),
        ("--threads 0", ("--threads",)),
        ("--time-limit 0", ("--time-limit",)),
        ("--memory-limit none", ("--memory-limit",)),
        ("--only svdkl", ("--only", "'svdkl'")),
        ("--only system=gpflow", ("klsp_gp", "'system=gpflow'")),
        ("--study import --only system=mc_gp", ("import_svdkl", "'system=mc_gp'")),
        ("--fast", ("no such option", "svdkl bench --help")),
        ("step", ("step", "svdkl bench --help")),
    ],
)
def test_options(options, parts, capfd, tmp_path):
    assert main(["bench", *shlex.split(options)]) == 2
    output, errors = capfd.readouterr()
    assert output == ""
    (line,) = errors.splitlines()
    assert line.startswith("Expected ")
    assert line.endswith(".")
    for part in parts:
        assert part in line
    assert not list(tmp_path.iterdir())


def test_places(capfd):
    Path("file").write_text("x")
    assert main(shlex.split("bench --quick --out file")) == 2
    assert "--out" in capfd.readouterr().err
    Path("results").mkdir()
    Path("results/bench.json").write_text("[]")
    assert main(shlex.split("bench --quick --out results")) == 2
    assert "bench.json" in capfd.readouterr().err
    assert Path("results/bench.json").read_text() == "[]"


def test_a_run_prints_a_table_and_writes(capfd, monkeypatch):
    def run(task, conditions):
        if task.study == "profile":
            return {
                "status": "measured",
                "operations": [{"operation": "mm", "share": 1, "milliseconds": 2, "calls": 3}],
            }
        return {"status": "measured", "seconds": {name: [1.0, 1.0] for name in task.systems}}

    monkeypatch.setattr("svdkl_research.bench.runner.run_in_worker", run)
    assert main(shlex.split("bench --out here")) == 1  # gpytorch is not fifty times slower
    output, _ = capfd.readouterr()
    assert "ratio at most 1.02" in output
    assert "missed" in output
    assert "exponent" in output
    assert "100.0 %" in output
    assert {path.name for path in Path("here").iterdir()} == {"bench.json", "bench.svg"}
    assert main(shlex.split("bench --out there --study step --json")) == 0
    assert '"verdict": "holds"' in capfd.readouterr().out
