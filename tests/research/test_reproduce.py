"""``svdkl reproduce``: tasks, then a page and figures, all from the results."""

from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from svdkl.cli.app import main
from svdkl_research.commands.reproduce import write_page
from svdkl_research.datasets import SOURCES
from svdkl_research.pages.suite_figures import _curve, write_figures
from svdkl_research.suites import runner
from svdkl_research.suites.all_suites import get_suite
from svdkl_research.suites.plan import Place
from svdkl_research.suites.results import Result, read_results, write_results
from svdkl_research.suites.suite import Task

PROVENANCE = {
    "commit": None,
    "dirty": None,
    "versions": {"torch": "9.9"},
    "machine": {"processor": "Abacus", "threads": 3},
}


def put(root: Path, task: Task, result: str, **metrics: float) -> None:
    config = {"trained_as": task.model, "fold": task.fold, "seed": task.seed, "share": str(task.share)}
    known = {"accuracy": 0.7, "nlp": 0.5, "train_seconds": 50.0, "train_core_seconds": 40.0, "predict_seconds": 1.0}
    numbers = {**known, "n_train": 3000, **metrics}
    write_results(root, task.suite, [Result(task.dataset, result, task.run, numbers, config, PROVENANCE)])


@pytest.fixture
def instead(tmp_path, monkeypatch):
    """A folder to be in, and results that are made up in place of workers."""
    monkeypatch.chdir(tmp_path)
    failing: set[str] = set()

    def made_up(task: Task, place: Place) -> str | None:
        if task.model in failing:
            return "out of memory"
        for result in get_suite(task.suite).results_of(task.model, task.share):
            put(place.results, task, result)
        return None

    monkeypatch.setattr(runner, "run_in_worker", made_up)
    return failing


def test_runs_what_is_missing_and_writes_the_page(instead, capsys):
    arguments = ["reproduce", "smoke", "--only", "model=svdkl,model=dnn"]
    assert main(arguments) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "smoke: 4 tasks, 0 finished before, 4 to run."
    assert said[1] == "How long this takes is unknown: no run like these is finished."
    assert said[-1] == "Wrote results/smoke/tables.md."
    page = Path("results/smoke/tables.md").read_text()
    assert "SV-DKL against network: accuracy no difference beyond the spread (+0.00000 ± 0.00000, 2 runs)" in page
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("smoke: 4 tasks, 4 finished before, 0 to run.")


def test_quick_results_are_apart(instead, capsys):
    assert main(["reproduce", "smoke", "--quick", "--only", "model=svdkl", "--results", "kept"]) == 0
    assert "Wrote kept/quick/smoke/tables.md." in capsys.readouterr().out
    assert not Path("kept/smoke").exists()
    assert "Only 4,000 training rows at most" in Path("kept/quick/smoke/tables.md").read_text()


def test_failures_are_told(instead, capsys):
    instead.add("svdkl")
    assert main(["reproduce", "smoke", "--only", "model=svdkl,model=dnn,fold=0"]) == 1
    said = capsys.readouterr()
    assert "failed, out of memory" in said.out
    assert said.err.startswith("Expected all tasks to succeed, but 1 failed or lack their data")
    assert Path("results/smoke/tables.md").exists()
    assert main(["reproduce", "smoke_regression", "--only", "model=svdkl"]) == 1
    assert not Path("results/smoke_regression").exists()


def test_a_suite_without_any_data_is_refused_at_once(instead, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SVDKL_DATA", str(tmp_path))
    for suite, names in (("uci", "connect4, covertype, diabetes"), ("airline2008", "")):
        assert main(["reproduce", suite]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("Expected ")
        assert said.err.count("\n") == 1
        assert names in said.err
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_says_what_is_kept(instead, capsys, monkeypatch):
    def stop(task: Task, place: Place) -> str | None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_in_worker", stop)
    assert main(["reproduce", "smoke"]) == 130
    assert "checkpoints stay" in capsys.readouterr().err


def test_dry_run_and_refusals(instead, capsys, monkeypatch, tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    (data / "flights_us_complete8.csv").write_text("")
    monkeypatch.setenv("SVDKL_DATA", str(data))
    assert main(["reproduce", "airline", "--dry-run", "--only", "share=1/50"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == [f"flights {model} fold0-seed0-share1of50 (time unknown)" for model in ("dnn", "svdkl")]
    # What lacks its data is neither listed nor, where that is all, told otherwise than by the command itself.
    assert main(["reproduce", "tabular", "--dry-run", "--only", "model=lightgbm,seed=0"]) == 0
    printed = capsys.readouterr().out
    assert "diabetes: left out, its data is missing. Expected " in printed
    assert "tabular: 5 tasks, 0 finished before, 4 without data, 1 to run." in printed
    (line,) = [line for line in printed.splitlines() if "(time" in line]
    assert line.startswith("flights lightgbm")
    refusals = []
    for dry in ([], ["--dry-run"]):
        assert main(["reproduce", "svhn", *dry]) == 2
        refusals.append(capsys.readouterr())
    assert refusals[0] == refusals[1]
    assert list(Path().iterdir()) == []
    for arguments, part in (
        (["sounds"], "'sounds'"),
        (["uci", "--only", "fold=9"], "'9'"),
        (["uci", "--threads", "0"], "--threads"),
        (["smoke", "--page-only"], "run the suite first"),
        (["smoke", "--results", "/dev/null/here"], "--results"),
        (["smoke", "--scratch", "/dev/null/here"], "--scratch"),
    ):
        assert main(["reproduce", *arguments]) == 2
        message = capsys.readouterr().err
        assert message.startswith("Expected ")
        assert part in message


def test_a_dry_run_counts_what_would_be_downloaded(instead, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SVDKL_DATA", str(tmp_path))
    fetching = {name for name, source in SOURCES.items() if source.at_openml}
    assert fetching == {"adult", "connect4", "covertype", "diabetes"}
    arguments = ["reproduce", "tabular", "--dry-run", "--download", "--only", "model=lightgbm, seed=0"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "adult, connect4, covertype, diabetes: to be downloaded from OpenML.\n" in printed
    assert "tabular: 5 tasks, 0 finished before, 1 without data, 4 to run." in printed
    assert printed.count("(time unknown)") == 4
    assert main([*arguments[:-1], "model=lightgbm,seed=0,dataset=adult"]) == 0
    assert "tabular: 1 task, 0 finished before, 1 to run." in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_images_from_elsewhere_that_are_missing_are_named_before_anything_runs(instead, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SVDKL_DATA", str(tmp_path))
    for name in ("mnist.npz", "tiny-imagenet-200.zip"):
        (tmp_path / name).touch()
    arguments = ["reproduce", "images", "--only", "model=cnn,seed=0"]
    assert main([*arguments, "--dry-run"]) == 0
    printed = capsys.readouterr().out
    said = "mnist_binary, mnist: models will not be shown images from elsewhere. Expected notmnist_test.npz"
    assert said in printed
    assert "cifar10: models" not in printed  # it has no images of its own
    assert main(arguments) == 1
    printed = capsys.readouterr().out
    assert printed.index(said) < printed.index("[1/3]")
    page = Path("results/images/tables.md").read_text()
    models = "`cnn`, `dnn_temperature`, `laplace`, `cnn_gp`"
    assert page.count(f"Not shown images of notmnist: {models}; to measure that, delete their lines in runs.jsonl") == 2
    (tmp_path / "notmnist_test.npz").touch()
    assert main([*arguments[:-1], "model=cnn,seed=1", "--dry-run"]) == 0
    assert "will not be shown" not in capsys.readouterr().out


def test_the_page_alone(instead, capsys, monkeypatch):
    put(Path("kept"), Task("airline", "flights", "dnn", 0, 0), "dnn")
    put(Path("kept"), Task("airline", "flights", "dnn", 0, 0, Fraction(1, 10)), "dnn", n_train=300)

    def never(task: Task, place: Place) -> str | None:
        raise AssertionError("nothing is to be run")

    monkeypatch.setattr(runner, "run_in_worker", never)
    assert main(["reproduce", "airline", "--page-only", "--results", "kept"]) == 0
    names = ("tables.md", "flights-accuracy.svg", "flights-train_core_seconds.svg")
    assert capsys.readouterr().out.splitlines() == [f"Wrote kept/airline/{name}." for name in names]
    assert "](flights-accuracy.svg)" in Path("kept/airline/tables.md").read_text()


def test_figures_by_training_rows(tmp_path, edit_runs):
    """Figure 2 a and b, with numbers that are read back from the curves."""
    suite = get_suite("airline")
    for share, rows in (("1/50", 60), ("1/10", 300), ("1", 3000)):
        for model, accuracy in (("dnn", 0.6), ("svdkl", 0.65)):
            task = Task("airline", "flights", model, 0, 0, Fraction(share))
            put(tmp_path, task, model, n_train=rows, accuracy=accuracy + rows / 1e5, train_core_seconds=rows / 10)
    put(tmp_path, Task("airline", "flights", "klsp_gp", 0, 0), "klsp_gp", accuracy=0.5)
    put(tmp_path, Task("airline", "flights", "svdkl", 1, 0), "svdkl", n_train=3002, accuracy=0.7)
    page, *figures = write_page("airline", tmp_path)
    assert [path.name for path in figures] == ["flights-accuracy.svg", "flights-train_core_seconds.svg"]
    for path in figures:
        assert f"]({path.name})" in page.read_text()
        root = ElementTree.parse(path).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        texts = "".join(root.itertext())
        for text in ("SV-DKL", "network", "3,001", "training rows", "--blue", "all rows"):
            assert text in texts
    curve = _curve([r for r in read_results(tmp_path, suite) if r.model == "svdkl"], "accuracy")
    np.testing.assert_allclose(curve.rows, [60, 300, 3001])
    np.testing.assert_allclose(curve.means, [0.6506, 0.653, 0.69])
    np.testing.assert_allclose(curve.spreads, [0, 0, np.std([0.68, 0.7], ddof=1)])
    assert write_figures(get_suite("smoke"), tmp_path) == []
    # Fits that went on from an old checkpoint do not know their core seconds.
    unknown = {"train_core_seconds": None}
    edit_runs(tmp_path / "airline" / "runs.jsonl", lambda e: {**e, "metrics": {**e["metrics"], **unknown}})
    assert [path.name for path in write_figures(suite, tmp_path)] == ["flights-accuracy.svg"]
