"""A run that programs ask for: what is refused before any work, and what is taken as it is."""

import numpy as np
import pandas as pd
import pytest
from refusals import refused

from svdkl import SVDKLClassifier, SVDKLRegressor
from svdkl.estimators.run import Prepared, run
from svdkl.estimators.run_config import RunConfig
from svdkl.estimators.targets import Classes, Reals

SMALL = {"hidden": [8], "num_features": 4, "grid_size": 8, "max_iter": 1, "evidence": False}


@pytest.fixture
def request_of(tmp_path):
    """What a run of a small table is asked for."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"area": random.gamma(9, 12, 60), "floors": np.arange(60) % 4})
    frame["dear"] = np.where(frame["area"] > 100, "yes", "no")
    frame.to_csv(tmp_path / "homes.csv", index=False)

    def request_of(target, **more):
        asked = {"data": str(tmp_path / "homes.csv"), "target": target, "out": str(tmp_path / "run"), "verbose": False}
        return {**asked, "options": SMALL, **more}

    return request_of


@pytest.mark.parametrize(("target", "kind"), [("dear", Classes), ("floors", Classes), ("area", Reals)])
def test_a_target_tells_the_task(request_of, target, kind):
    assert Prepared(RunConfig.of(request_of(target))).kind is kind


def test_a_run_of_plain_values_gives_an_estimator_and_one_that_has_ended_is_taken_as_it_is(request_of, tmp_path):
    asked = request_of("area", drop=["dear"])
    outcome = run(asked)
    assert isinstance(outcome.estimator, SVDKLRegressor)
    assert outcome.facts["dropped"] == ["dear"]
    (tmp_path / "homes.csv").unlink()
    again = run({**asked, "resume": True})
    X = pd.DataFrame({"area": [1.0], "floors": [2]})[["floors"]]
    assert np.array_equal(again.estimator.predict(X), outcome.estimator.predict(X))
    assert again.facts["task"] == "regression"


@pytest.mark.parametrize(
    ("target", "options", "part"),
    [
        ("dear", {"likelihood": "poisson"}, "SVDKLClassifier"),
        ("area", {"class_weight": "balanced"}, "SVDKLRegressor"),
        ("dear", {"hiden": [3]}, "'hiden'"),
    ],
)
def test_options_that_nobody_has_and_options_of_the_other_task(request_of, target, options, part):
    refused(lambda: run(request_of(target, options=options)), part, "remove it, or set the task")


def test_values_that_are_refused_before_anything_is_written(request_of, tmp_path):
    refused(lambda: run(request_of("dear", options={"net": "LeNet"})), "a torch module")
    refused(lambda: run(request_of("dear", options={"max_iter": 0})), "max_iter", "at least 1")
    refused(lambda: run(request_of("dear", task="clustering")), "task", "clustering")
    assert not (tmp_path / "run").exists()


def test_a_run_that_is_refused_forgets_no_other(request_of, tmp_path):
    run(request_of("dear"))
    before = sorted(file.name for file in (tmp_path / "run").iterdir())
    refused(lambda: run(request_of("area", task="classification", overwrite=True)), "numbers such as")
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == before
    assert isinstance(run(request_of("dear", resume=True)).estimator, SVDKLClassifier)
