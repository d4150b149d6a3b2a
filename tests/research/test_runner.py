"""Suites run task by task, go on where they were cut off, and leave nothing half-written."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
import torch
from refusals import refused

from svdkl.cli.app import main as reproduce
from svdkl.training.checkpoint import Checkpoint, Snapshot
from svdkl_research.rivals import FORKS, MODELS, REFINEMENTS, ClassBaseline, Entry
from svdkl_research.rivals.networks import NetworkClassifier
from svdkl_research.suites import runner
from svdkl_research.suites.all_suites import SUITES, get_suite, quick
from svdkl_research.suites.plan import Place, look_for_data, plan_suite
from svdkl_research.suites.results import Result, read_results, runs_file, write_results
from svdkl_research.suites.runner import run_suite
from svdkl_research.suites.scratch import checkpoint_of, fork_of, scratch_of
from svdkl_research.suites.suite import Task, parse_only, select
from svdkl_research.suites.task import run_task
from svdkl_research.task_commands import main

SMOKE = get_suite("smoke")
RESULTS = ("dnn", "dnn_temperature", "dnn_gp")  # of one fit
ENVIRONMENT = {**os.environ, "SVDKL_UNCHECKED_SHAPES": "1", "OMP_NUM_THREADS": "1"}


class Frequencies(ClassBaseline):
    """The same probabilities for all rows."""

    fits = 0

    def fit(self, X: pa.Table, y: np.ndarray, X_held_out: pa.Table, y_held_out: np.ndarray, seed: int) -> None:
        type(self).fits += 1
        self.p = np.bincount(y) / len(y)
        self.seen = (X, X_held_out)

    def predict_proba(self, X: pa.Table) -> np.ndarray:
        return np.tile(self.p, (X.num_rows, 1))

    def settings(self) -> dict:
        return {"kernel": np.mean, "sizes": (1, 2), "rate": float("nan")}


@pytest.fixture
def place(tmp_path, monkeypatch) -> Place:
    """Frequencies in place of all models, and tasks in the test itself."""
    place = Place(tmp_path / "results", tmp_path / "scratch")
    for name in MODELS:
        monkeypatch.setitem(MODELS, name, Entry(lambda *which: Frequencies(), name))
    monkeypatch.setitem(REFINEMENTS, "dnn_gp", REFINEMENTS["dnn_temperature"])  # frequencies have no features
    monkeypatch.setattr(Frequencies, "fits", 0)

    def here(task: Task, place: Place) -> str | None:
        run_task(SMOKE, task, place.results, place.scratch)
        return None

    monkeypatch.setattr(runner, "run_in_worker", here)
    return place


def test_a_fit_serves_all_its_results_and_is_not_done_again(place, edit_runs):
    tasks = select(SMOKE, parse_only("model=dnn,model=lightgbm,fold=0"))
    lines: list[str] = []
    assert run_suite(SMOKE, tasks, place, lines.append) == []
    assert Frequencies.fits == 2
    found = {result.model: result for result in read_results(place.results, SMOKE)}
    assert set(found) == {*RESULTS, "lightgbm"}
    assert found["dnn_temperature"].config["trained_as"] == "dnn"
    assert found["dnn_temperature"].metrics["train_seconds"] >= found["dnn"].metrics["train_seconds"]

    assert run_suite(SMOKE, tasks, place, lines.append) == []
    assert Frequencies.fits == 2
    assert lines[-1] == "smoke: 2 tasks, 2 finished before, 0 to run."
    assert lines[0] == "smoke: 2 tasks, 0 finished before, 2 to run."

    # One of several results is lost: the fit is done again, and all are of that fit.
    edit_runs(
        runs_file(place.results, "smoke"),
        lambda entry: None if entry["model"] == "dnn_temperature" else {**entry, "provenance": {"fit": "old"}},
    )
    assert run_suite(SMOKE, tasks, place, lines.append) == []
    assert Frequencies.fits == 3
    found = {result.model: result for result in read_results(place.results, SMOKE)}
    assert set(found) == {*RESULTS, "lightgbm"}
    assert [model for model, result in found.items() if result.provenance == {"fit": "old"}] == ["lightgbm"]


def test_a_fit_of_another_suite_is_taken_as_it_is(place, monkeypatch, edit_runs):
    other = replace(SMOKE, name="other", folds=(1,))
    monkeypatch.setitem(SUITES, "other", other)
    run_suite(SMOKE, select(SMOKE, parse_only("model=dnn,fold=1")), place, lambda line: None)
    lines: list[str] = []
    assert run_suite(other, select(other, parse_only("model=dnn,model=lightgbm")), place, lines.append) == []
    assert lines[0] == "other: 2 tasks, 0 finished before, 1 finished in other suites, 1 to run."
    assert Frequencies.fits == 2
    first, second = (runs_file(place.results, suite) for suite in ("smoke", "other"))
    copied = first.read_text().splitlines()
    assert len(copied) == len(RESULTS)
    assert set(copied) < set(second.read_text().splitlines())

    # A result of another fit that stands alone where several belong goes.
    edit_runs(second, lambda entry: {**entry, "config": {}} if entry["model"] == "dnn" else None)
    assert run_suite(other, select(other, parse_only("model=dnn")), place, lines.append) == []
    assert second.read_text() == first.read_text()

    small = quick(other)
    monkeypatch.setitem(SUITES, small.name, small)
    assert plan_suite(small, select(small, parse_only("model=dnn")), place).shared == {}


def test_what_a_result_holds(place):
    task = Task("smoke", "tumours", "lightgbm", 1, 0)
    run_task(SMOKE, task, place.results, place.scratch)
    entry = json.loads((place.results / "smoke" / "runs.jsonl").read_text())
    assert list(entry) == ["dataset", "model", "run", "metrics", "config", "provenance"]
    assert (entry["dataset"], entry["model"], entry["run"]) == ("tumours", "lightgbm", "fold1-seed0")
    metrics, config, record = entry["metrics"], entry["config"], entry["provenance"]
    names = ["accuracy", "nlp", "ece", "brier", "auroc", "train_seconds", "predict_seconds", "n_train", "n_test"]
    assert set(names) <= set(metrics)
    assert metrics["peak_memory"] > 1e7
    assert (config["share"], config["resumed_after_epochs"]) == ("1", 0)
    assert metrics["n_fit"] + metrics["n_validation"] == metrics["n_train"]
    assert metrics["n_train"] + metrics["n_test"] == 569
    assert metrics["auroc"] == 0.5
    assert config["settings"]["sizes"] == [1, 2]
    assert config["settings"]["rate"] is None
    assert set(record) == {"commit", "dirty", "versions", "seed", "machine", "date", "command"}
    assert record["versions"]["torch"]
    assert record["machine"]["threads"] >= 1
    assert record["command"] == "python -m svdkl_research run-task smoke tumours lightgbm --fold 1 --seed 0"
    kept = np.load(place.scratch / "smoke" / "tumours" / "lightgbm" / "fold1-seed0" / "predictions.npz")
    assert kept["probabilities"].shape == (len(kept["rows"]), 2)


def test_damaged_results_are_named(place):
    task = Task("smoke", "tumours", "lightgbm", 0, 0)
    run_task(SMOKE, task, place.results, place.scratch)
    runs_file(place.results, "smoke").write_text("{\n")
    refused(lambda: list(read_results(place.results, SMOKE)), "line 1", "runs.jsonl", "delete that line")


def test_a_failure_does_not_stop_the_others(place, monkeypatch):
    def fails(task: Task, place: Place) -> str | None:
        if task.model == "dnn":
            return "out of memory"
        config = {"trained_as": task.model, "fold": task.fold, "seed": task.seed}
        metrics = {"train_seconds": 7200.0, "predict_seconds": 1.0}
        write_results(place.results, "smoke", [Result(task.dataset, task.model, task.run, metrics, config, {})])
        return None

    monkeypatch.setattr(runner, "run_in_worker", fails)
    lines: list[str] = []
    failed = run_suite(SMOKE, select(SMOKE, parse_only("model=dnn,model=svdkl")), place, lines.append)
    assert [str(task) for task in failed] == ["tumours dnn fold0-seed0", "tumours dnn fold1-seed0"]
    assert "[1/4] tumours dnn fold0-seed0: failed, out of memory" in lines
    # What is left is judged by what tasks say that they took, however soon they were done here.
    assert "[4/4] tumours svdkl fold1-seed0 (about 2 h 0 min left)" in lines


def test_workers(tmp_path, monkeypatch, capsys):
    """The real thing: a task in a worker of its own, and one that cannot be done."""
    for name in ("SVDKL_UNCHECKED_SHAPES", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    place = ["--results", str(tmp_path / "results"), "--scratch", str(tmp_path / "scratch"), "--threads", "1"]
    assert reproduce(["reproduce", "smoke", "--only", "model=lightgbm,fold=0", *place]) == 0
    assert "[1/1] tumours lightgbm fold0-seed0: done in" in capsys.readouterr().out
    (result,) = read_results(tmp_path / "results", SMOKE)
    assert result.provenance["machine"]["threads"] == 1

    monkeypatch.setenv("SVDKL_DATA", str(tmp_path))
    assert reproduce(["reproduce", "tabular", "--only", "dataset=adult,model=lightgbm", *place]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("Expected adult.parquet")
    assert said.err.count("\n") == 1
    (tmp_path / "adult.csv").write_text("income\n<=50K\n")
    # A worker that ends with a traceback, without the seconds that torch takes to load.
    fails = "raise ValueError('Expected adult with 48842 rows.')"
    monkeypatch.setattr(runner, "task_command", lambda task, place: [sys.executable, "-c", fails])
    assert reproduce(["reproduce", "tabular", "--only", "dataset=adult,model=lightgbm,seed=0", *place]) == 1
    said = capsys.readouterr()
    assert "failed, Expected adult with 48842 rows. (log: " in said.out
    assert "Traceback" not in said.out + said.err
    assert not (tmp_path / "results" / "tabular").exists()


def test_a_set_without_data_is_left_out_and_said_once(place, monkeypatch, tmp_path):
    both = replace(SMOKE, name="both", datasets=("adult", "tumours", "covertype"), models=("lightgbm",))
    monkeypatch.setitem(SUITES, "both", both)
    monkeypatch.setenv("SVDKL_DATA", str(tmp_path))
    run: list[Task] = []

    def pretend(task: Task, place: Place) -> str | None:
        run.append(task)
        write_results(place.results, "both", [Result(task.dataset, task.model, task.run, {}, {}, {})])
        return None

    monkeypatch.setattr(runner, "run_in_worker", pretend)
    lines: list[str] = []
    failed = run_suite(both, list(both.tasks()), place, lines.append)
    assert {task.dataset for task in run} == {"tumours"}
    assert [task.dataset for task in failed] == ["adult"] * 2 + ["covertype"] * 2
    assert lines[0].startswith("adult: left out, its data is missing. Expected adult.parquet")
    assert lines[1].startswith("covertype: left out, its data is missing. Expected covertype.parquet")
    assert lines[2] == "both: 6 tasks, 0 finished before, 4 without data, 2 to run."
    assert sum("adult" in line for line in lines) == 1
    images = replace(get_suite("images"), name="some", datasets=("tumours", "mnist", "mnist_binary"), fewer_seeds={})
    plan = look_for_data(plan_suite(images, list(images.tasks()), place), place)
    assert plan.sentences()[0].startswith("mnist, mnist_binary: left out, their data is missing. Expected mnist.npz")
    assert "mnist" not in "".join(plan.sentences()[1:])

    # Nothing is left to run, but there are results to show.
    assert run_suite(both, list(both.tasks()), place, lines.append) == failed
    without = [task for task in both.tasks() if task.dataset != "tumours"]
    refused(
        lambda: run_suite(both, without, place, lines.append),
        "Expected adult.parquet",
        "Missing, too: covertype.",
        error=FileNotFoundError,
    )


@pytest.mark.parametrize("option", ["results", "scratch"])
def test_folders_that_cannot_be_written_to_are_refused_before_anything_runs(option, place, tmp_path):
    (tmp_path / "file").write_text("")
    blocked = replace(place, **{option: tmp_path / "file" / "below"})
    refused(
        lambda: run_suite(SMOKE, list(SMOKE.tasks()), blocked), f"--{option}", str(tmp_path / "file"), error=OSError
    )
    assert Frequencies.fits == 0
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_interrupt_leaves_nothing(tmp_path):
    results = tmp_path / "results"
    command = [sys.executable, "-m", "svdkl", "reproduce", "smoke", "--only", "model=svdkl"]
    command += ["--results", str(results), "--scratch", str(tmp_path / "scratch"), "--threads", "1"]
    log = tmp_path / "scratch" / "smoke" / "tumours" / "svdkl" / "fold0-seed0" / "log.txt"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, env=ENVIRONMENT) as process:
        start = time.monotonic()
        while not log.exists() and time.monotonic() - start < 60:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.startswith("Interrupted")
    assert not [path for path in results.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["run-task", "nosuch", "adult", "dnn"], "'nosuch'"),
        (["run-task", "smoke", "tumours", "dnn", "--threads", "none"], "'none'"),
        (["run-task", "smoke", "tumours", "dnn", "--share", "half"], "'half'"),
        (["run-task", "smoke", "tumours", "dnn", "--share", "1/2"], "share1of2"),
        (["run-task"], "SUITE"),
        (["frobnicate"], "frobnicate"),
        (["run-task", "smoke", "adult", "svdkl"], "adult svdkl fold0-seed0"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(arguments, part, capsys):
    try:
        code = main(arguments)
    except SystemExit as exit_:
        code = exit_.code
    message = capsys.readouterr().err
    assert code == 2
    assert part in message
    assert message.startswith("Expected ")
    assert message.endswith(".\n")
    assert message.count("\n") == 1


def test_a_task_on_a_share_of_the_rows(place):
    task = Task("smoke", "tumours", "lightgbm", 0, 0, Fraction(1, 5))
    assert task.arguments[-2:] == ("--share", "1/5")
    run_task(SMOKE, task, place.results, place.scratch)
    (found,) = read_results(place.results, SMOKE)
    assert found.run == "fold0-seed0-share1of5"
    assert (found.metrics["n_train"], found.metrics["n_test"]) == (91, 114)
    assert found.config["share"] == "1/5"
    assert found.share == task.share


# --------------------------------------------------------------------------------------------------------- checkpoints


class Halting(Frequencies):
    """Leaves a checkpoint of two epochs and stops; goes on if it finds one."""

    def fit(self, X: pa.Table, y: np.ndarray, X_held_out: pa.Table, y_held_out: np.ndarray, seed: int) -> None:
        if not self.checkpoint.exists():
            history = [{"seconds": 100.0}, {"seconds": 20.0}]
            Checkpoint(self.checkpoint).save(Snapshot("network", {"a": {"b": torch.ones(1)}}, {"history": history}))
            raise KeyboardInterrupt
        super().fit(X, y, X_held_out, y_held_out, seed)


def test_time_before_a_cut_counts_and_checkpoints_go(place, monkeypatch):
    monkeypatch.setitem(MODELS, "lightgbm", Entry(lambda *which: Halting(), "halting"))
    task = Task("smoke", "tumours", "lightgbm", 0, 0)
    training = checkpoint_of(place.scratch, task).parent
    with pytest.raises(KeyboardInterrupt):
        run_suite(SMOKE, [task], place, lambda line: None)
    assert training.is_dir()
    assert not place.results.exists()
    lines: list[str] = []
    assert run_suite(SMOKE, [task], place, lines.append) == []
    assert any("goes on from its checkpoint" in line for line in lines)
    (result,) = read_results(place.results, SMOKE)
    assert 120 < result.metrics["train_seconds"] < 180
    assert result.metrics["train_core_seconds"] is None
    assert result.config["resumed_after_epochs"] == 2
    assert not training.exists()


def test_sv_dkl_goes_on_from_the_networks_epochs(place, tmp_path, monkeypatch):
    options = {"hidden": (8,), "num_features": 3, "grid_size": 8, "max_iter": 6}
    forks = {name: own for name, own in FORKS.items() if name in SMOKE.models}
    for name, own in {"dnn": lambda dataset: {"recipe": "dnn"}, **forks}.items():
        entry = Entry(lambda task, dataset, own=own: NetworkClassifier(**options, **own(dataset)), name)
        monkeypatch.setitem(MODELS, name, entry)
    tasks = {name: Task("smoke", "tumours", name, 0, 0) for name in ("dnn", *forks)}
    left = fork_of(place.scratch, tasks["svdkl"])
    left.parent.mkdir(parents=True)
    left.write_text("of an earlier fit, which is repeated")
    for name in ("svdkl_paper", "dnn", "svdkl"):  # the paper's form comes before there is anything to go on from
        run_task(SMOKE, tasks[name], place.results, place.scratch)
        assert left.exists() == (name != "svdkl")
    for name in forks:
        run_task(SMOKE, tasks[name], tmp_path / "alone", tmp_path / "other")
    found, alone = (
        {result.model: result for result in read_results(root, SMOKE)} for root in (place.results, tmp_path / "alone")
    )
    assert not fork_of(place.scratch, tasks["svdkl_paper"]).exists()
    assert {name: found[name].config["shared_epochs"] for name in forks} == {"svdkl_paper": 0, "svdkl": 4}
    assert {result.config["resumed_after_epochs"] for result in found.values()} == {0}
    for name in forks:
        assert found[name].metrics["nlp"] == alone[name].metrics["nlp"]
        assert found[name].metrics["train_core_seconds"] > 0
    assert found["dnn"].metrics["nlp"] != found["svdkl"].metrics["nlp"]


def test_a_network_goes_on_from_its_checkpoint(place, tmp_path, monkeypatch):
    options = {"hidden": (8,), "num_features": 3, "grid_size": 8, "max_iter": 6, "evidence": False}
    entry = Entry(lambda *which: NetworkClassifier(recipe="svdkl", **options), "small")
    monkeypatch.setitem(MODELS, "svdkl", entry)
    task = Task("smoke", "tumours", "svdkl", 0, 0)
    run_task(SMOKE, task, tmp_path / "whole", tmp_path / "other")
    saved = []
    save = Checkpoint.save

    def cut(self: Checkpoint, snapshot: Snapshot) -> None:
        save(self, snapshot)
        saved.append(snapshot.stage)
        if len(saved) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "save", cut)
    with pytest.raises(KeyboardInterrupt):
        run_task(SMOKE, task, place.results, place.scratch)
    run_task(SMOKE, task, place.results, place.scratch)
    assert saved == ["network"] * 4 + ["joint"] * 2
    (whole,), (parts,) = (list(read_results(root, SMOKE)) for root in (tmp_path / "whole", place.results))
    assert parts.config["resumed_after_epochs"] == 5
    assert parts.metrics["nlp"] == whole.metrics["nlp"]
    kept = scratch_of(place.scratch, task, "svdkl")
    assert len((kept / "history.jsonl").read_text().splitlines()) == 6
    assert not checkpoint_of(place.scratch, task).parent.exists()
