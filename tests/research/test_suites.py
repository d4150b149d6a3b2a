"""Suites, their parts, and what they are expected to take."""

import subprocess
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

from svdkl_research.rivals import MODELS, make_baseline
from svdkl_research.suites import provenance
from svdkl_research.suites import task as task_module
from svdkl_research.suites.all_suites import GP_RIVALS, QUICK_MODELS, SUITES, get_suite
from svdkl_research.suites.estimates import Estimate, TaskCost, duration
from svdkl_research.suites.plan import Place, plan_suite
from svdkl_research.suites.results import Result, runs_file, write_results
from svdkl_research.suites.runner import task_command
from svdkl_research.suites.scratch import fork_of
from svdkl_research.suites.suite import Task, parse_only, select
from svdkl_research.suites.task import run_task, sample

SMOKE = get_suite("smoke")


def test_suites_are_whole():
    for suite in SUITES.values():
        tasks = list(suite.tasks())
        assert len(tasks) == len(set(tasks))
        assert {task.model for task in tasks} <= set(MODELS)
        for model in suite.models:
            assert suite.kind in MODELS[model].tasks or MODELS[model].on_images
    assert len(list(SUITES["tabular"].tasks())) == 60
    uci = list(SUITES["uci"].tasks())
    assert len(uci) == 4 * (5 * 6 + 2)
    assert SUITES["uci"].results_of("dnn") == ("dnn", "dnn_temperature", "dnn_gp", "laplace")
    assert SUITES["airline"].results_of("dnn", Fraction(1, 3)) == ("dnn",)  # parts are for Figure 2 alone
    assert [task.fold for task in uci if (task.dataset, task.model) == ("covertype", "ensemble")] == [0]
    airline = list(SUITES["airline"].tasks())
    assert len(airline) == 3 + 3 * 4 + 3 * 2
    several = {"dnn", "svdkl_paper", "svdkl_paper_small_batches", "svdkl"}
    assert {task.model for task in airline if task.seed} == several
    assert {(task.model, task.seed) for task in airline if task.share != 1} == {("dnn", 0), ("svdkl", 0)}
    images = list(SUITES["images"].tasks())
    assert {task.dataset for task in images if task.model in GP_RIVALS} == {"mnist", "mnist_binary"}
    assert {task.dataset for task in images if task.model == "ensemble"} == {"mnist_binary", "mnist", "cifar10"}
    assert "dnn_temperature" in SUITES["tabular"].results
    assert "dnn_temperature" in SUITES["regression"].results


def test_selection():
    tabular = get_suite("tabular")
    chosen = select(tabular, parse_only("dataset=adult,dataset=covertype,model=dnn_temperature,seed=2"))
    assert [str(task) for task in chosen] == ["adult dnn fold0-seed2", "covertype dnn fold0-seed2"]
    assert len(select(tabular, {})) == 60
    assert parse_only(" model=svdkl, dataset = mnist ,") == {"model": {"svdkl"}, "dataset": {"mnist"}}
    refused(lambda: parse_only("adult"), "dataset=", "'adult'")
    refused(lambda: parse_only("dataset="), "'dataset='")
    airline = select(get_suite("airline"), parse_only("share=1/50,share=1,model=svdkl,seed=0"))
    assert [str(task) for task in airline] == ["flights svdkl fold0-seed0-share1of50", "flights svdkl fold0-seed0"]
    uci = get_suite("uci")
    refused(lambda: select(uci, parse_only("dataset=covertype,model=svm,fold=3")), "uci", "--dry-run without --only")
    refused(lambda: select(tabular, parse_only("seed=7")), "0, 1, 2", "'7'")
    refused(lambda: get_suite("sounds"), "tabular", "'sounds'")


def test_quick_suites():
    quick = get_suite("quick/uci")
    tasks = list(quick.tasks())
    assert (quick.datasets, quick.max_rows) == (get_suite("uci").datasets, 4000)
    assert {(task.fold, task.seed) for task in tasks} == {(0, 0)}
    assert {task.model for task in tasks} == set(QUICK_MODELS) & set(get_suite("uci").models)
    assert runs_file(Path("results"), quick.name) == Path("results/quick/uci/runs.jsonl")
    refused(lambda: get_suite("quick/sounds"), "'quick/sounds'")
    # The paper's minibatches of 50,000 rows are for all flights.
    assert make_baseline("svdkl_paper", "classification", get_suite("airline").paper_set("flights")).settings() == {
        **make_baseline("svdkl_paper", "classification", get_suite("quick/airline").paper_set("flights")).settings(),
        "joint_batch_size": 50_000,
    }


def test_shares_are_nested_and_quick_suites_small():
    train = np.arange(1000, 2000)
    whole = Task("smoke", "tumours", "dnn", 0, 0)
    assert sample(train, SMOKE, whole) is train
    parts = [sample(train, SMOKE, replace(whole, share=Fraction(1, n))) for n in (50, 10, 3)]
    assert [len(part) for part in parts] == [20, 100, 333]
    for part, larger in zip(parts, [*parts[1:], train]):
        assert set(part) < set(larger)
        assert (np.diff(part) > 0).all()
    assert set(parts[0]) != set(sample(train, SMOKE, replace(whole, seed=1, share=Fraction(1, 50))))
    small = replace(SMOKE, max_rows=200)
    assert len(sample(train, small, whole)) == 200
    assert len(sample(train, small, replace(whole, share=Fraction(1, 10)))) == 20
    assert len(sample(train, replace(SMOKE, max_rows=5000), whole)) == 1000


def put(root: Path, task: Task, result: str, metrics: dict, config: dict) -> None:
    numbers = {"train_seconds": 5.0, "predict_seconds": 1.0, **metrics}
    told = {"trained_as": task.model, "fold": task.fold, "seed": task.seed, **config}
    write_results(root, task.suite, [Result(task.dataset, result, task.run, numbers, told, {})])


def test_estimates():
    estimate = Estimate()
    tasks = list(SMOKE.tasks())
    dnn, plus, gp = tasks[:3]
    assert estimate.cost_of(dnn) is None
    assert estimate.sentence([dnn]) == "How long this takes is unknown: no run like these is finished."
    assert (estimate.left([dnn, plus]), estimate.left([])) == ("2 tasks of unknown time left", "nothing left")
    # Runs of other folds and seeds tell what one takes; runs of other models and shares do not.
    estimate.done[dnn] = TaskCost(7200.0, 5e9)
    assert estimate.cost_of(replace(dnn, seed=3)) == estimate.done[dnn]
    estimate.done[replace(plus, fold=7)] = TaskCost(20.0)
    assert estimate.sentence([plus]) == "This takes about 20 s, judging by 2 finished runs."
    estimate.done[replace(plus, fold=8)] = TaskCost(40.0)
    assert estimate.cost_of(plus) == TaskCost(30.0)
    assert estimate.cost_of(replace(plus, share=Fraction(1, 10))) is None
    assert (estimate.time_of(plus), estimate.time_of(gp)) == ("about 30 s", "time unknown")
    assert estimate.left([dnn, plus]) == "about 2 h 0 min left"
    assert estimate.left([dnn, plus, gp]) == "about 2 h 0 min and 1 task of unknown time left"
    known = "This takes about 2 h 0 min and up to 5.0 GB of memory, judging by 3 finished runs"
    assert estimate.sentence([dnn]) == f"{known}."
    assert estimate.sentence([dnn, gp]) == f"{known}, without 1 task of unknown time."
    assert (duration(59.4), duration(3600.0), duration(7260.0)) == ("59 s", "1 h 0 min", "2 h 1 min")


def test_what_is_made_of_a_fit_counts_in_estimates(tmp_path):
    images, place = get_suite("images"), Place(tmp_path)
    task = Task("images", "mnist", "cnn", 0, 0)
    for result, training, predicting in (
        ("cnn", 150.0, 1.0),
        ("dnn_temperature", 151.0, 2.0),
        ("laplace", 200.0, 20.0),
    ):
        metrics = {"train_seconds": training, "predict_seconds": predicting, "n_test": 100, "n_elsewhere": 50}
        put(tmp_path, task, result, metrics, {})
    plan = plan_suite(images, [task, replace(task, seed=1)], place)
    assert plan.estimate.cost_of(plan.tasks[0]).seconds == pytest.approx(10 + 150 + 1 + 50 + 2.5 * (1 + 2 + 20))


def test_epochs_that_another_fit_leaves_are_not_counted_twice(tmp_path):
    tabular, place = get_suite("tabular"), Place(tmp_path / "results", tmp_path / "scratch")
    plain, ours = (Task("tabular", "adult", model, 0, 0) for model in ("dnn", "svdkl"))
    for task in (plain, ours):
        stages = {"network": {"seconds": 60.0}, "joint": {"seconds": 40.0}}
        put(place.results, task, task.model, {"train_seconds": 100.0}, {"findings": {"stages": stages}})

    def seconds(*tasks: Task) -> list[float]:
        estimate = plan_suite(tabular, tasks, place).estimate
        return [estimate.cost_of(task).seconds for task in tasks]

    def again(task: Task) -> Task:
        return replace(task, seed=1)

    assert seconds(again(plain), again(ours)) == [111, 51]
    assert seconds(again(ours)) == [111]  # alone it has all epochs to do
    assert seconds(replace(plain, seed=2), again(ours)) == [111, 111]
    fork = fork_of(place.scratch, again(ours))
    fork.parent.mkdir(parents=True)
    fork.touch()
    assert seconds(again(ours)) == [51]
    # Real targets' fits leave nothing.
    real = get_suite("regression")
    tasks = [Task("regression", "yacht", model, 0, 0) for model in ("dnn", "svdkl")]
    assert not plan_suite(real, tasks, place).estimate.handed


def test_the_papers_own_flights_are_a_suite_of_their_own():
    paper, many_years = get_suite("airline2008"), get_suite("airline")
    assert (paper.datasets, paper.models) == (("airline",), many_years.models)
    assert {(task.fold, task.seed, task.share) for task in paper.tasks()} == {(0, 0, 1)}


def test_damaged_results_of_other_suites_do_not_stop_one(tmp_path):
    uci, place = get_suite("uci"), Place(tmp_path)
    tasks = select(uci, parse_only("dataset=adult,model=lightgbm,fold=0"))
    put(tmp_path, Task("tabular", "adult", "lightgbm", 0, 0), "lightgbm", {}, {})
    assert plan_suite(uci, tasks, place).shared
    runs = runs_file(tmp_path, "tabular")
    for damage in ("{", "5", "{}", '{"dataset": "adult"}', ""):
        runs.write_text(f"{damage}\n")
        plan = plan_suite(uci, tasks, place)
        assert (plan.tasks, plan.shared, plan.estimate.done) == (tasks, {}, {})
    put(tmp_path, tasks[0], "lightgbm", {}, {})
    own = runs_file(tmp_path, "uci")
    own.write_text(own.read_text() + "<<<<<<< ours\n")
    refused(lambda: plan_suite(uci, tasks, place), "line 2", str(own), "delete that line")


def test_results_that_do_not_say_what_they_took_are_no_guide(tmp_path):
    uci, place = get_suite("uci"), Place(tmp_path)
    tasks = select(uci, parse_only("dataset=adult,model=lightgbm,fold=0"))
    write_results(tmp_path, "tabular", [Result("adult", "lightgbm", "fold0-seed0", {}, {}, {})])
    plan = plan_suite(uci, tasks, place)
    assert (list(plan.shared), plan.estimate.done) == (tasks, {})


def test_finished_runs_of_other_suites_count_in_estimates(tmp_path):
    put(tmp_path, Task("tabular", "adult", "dnn", 0, 1), "dnn", {"train_seconds": 500.0, "peak_memory": 7e9}, {})
    uci, place = get_suite("uci"), Place(tmp_path)
    plan = plan_suite(uci, select(uci, parse_only("dataset=adult,model=dnn")), place)
    assert (len(plan.tasks), plan.finished, plan.shared) == (5, 0, {})  # it has seed 0 only
    assert plan.estimate.cost_of(plan.tasks[0]) == TaskCost(511.0, 7e9)
    quick = get_suite("quick/uci")
    assert not plan_suite(quick, select(quick, parse_only("dataset=adult,model=dnn")), place).estimate.done


def test_commands_name_the_task():
    task = Task("regression", "yacht", "svgp", 3, 0)
    command = task_command(task, Place(Path("r"), Path("s"), Path("d"), True, 2))
    assert command[1:5] == ["-m", "svdkl_research", "--debug", "run-task"]
    assert command[5:10] == ["regression", "yacht", "svgp", "--fold", "3"]
    assert command[-5:] == ["--data-dir", "d", "--download", "--threads", "2"]


def test_the_commit_of_a_project_around_the_package_is_not_ours(tmp_path, monkeypatch):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", str(tmp_path)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "theirs"], check=True, cwd=tmp_path)
    folders = [tmp_path / "packages" / name for name in ("svdkl", "svdkl_research")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "module.py").touch()
    monkeypatch.setattr(provenance, "SOURCES", folders)
    assert provenance._code() == {"commit": None, "dirty": None}
    subprocess.run([*git, "add", "."], check=True, cwd=tmp_path)
    assert provenance._code()["dirty"] is True
    subprocess.run([*git, "commit", "-q", "-m", "ours"], check=True, cwd=tmp_path)
    ours = provenance._code()
    assert ours["dirty"] is False
    # A commit that leaves the sources as they are changes no figure.
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "documents"], check=True, cwd=tmp_path)
    assert provenance._code() == ours
    (folders[0] / "module.py").write_text("changed")
    assert provenance._code() == {**ours, "dirty": True}


def test_provenance_is_of_the_sources_that_are_read_before_a_fit(tmp_path, monkeypatch):
    told: list[int] = []
    monkeypatch.setattr(task_module, "provenance", lambda seed, command: told.append(seed) or {})

    def fails(*arguments):
        raise FileNotFoundError("no data")

    monkeypatch.setattr(task_module, "load_dataset", fails)
    with pytest.raises(FileNotFoundError, match="no data"):
        run_task(get_suite("smoke"), Task("smoke", "tumours", "dnn", 0, 7), tmp_path, tmp_path / "scratch")
    assert told == [7]
