"""SV-DKL that goes on from a plain network's epochs is SV-DKL trained from the start."""

from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refused
from sklearn.datasets import load_iris

from svdkl import SVDKLClassifier
from svdkl.estimators.fitting import TrainingSet, fit_model, prepare_table
from svdkl.estimators.options import Options
from svdkl.estimators.targets import Classes, Reals
from svdkl.training.checkpoint import Checkpoint
from svdkl_research.forks import followed_by

SMALL = {"hidden": (16,), "num_features": 6, "grid_size": 12, "random_state": 3, "dropout": 0.2}
FORMS = {
    "default": {"recipe": "svdkl"},
    "paper": {"recipe": "svdkl", "gps": "outputs", "evidence": False, "joint_batch_size": 100},
}


def plain_rows(options: dict, X: np.ndarray, y: np.ndarray, eval_set: object = None) -> TrainingSet:
    return prepare_table(Options.of({**options, "recipe": "dnn"}), Classes, X, y, eval_set=eval_set)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("max_iter", [6, 40])  # with 40 and a large rate both stop early, before a head comes
def test_a_fork_is_the_recipes_own(tmp_path: Path, form: str, max_iter: int) -> None:
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    fit, held_out = order[30:], order[:30]
    rows = {"X": X[fit], "y": y[fit], "eval_set": (X[held_out], y[held_out])}
    options = {**SMALL, "max_iter": max_iter, "learning_rate_init": 1e-3 if max_iter == 6 else 0.05}
    own, other = tmp_path / "dnn" / "kept", tmp_path / form / "kept"
    given = plain_rows(options, **rows)
    plain = fit_model(given, own, followed_by(given, {other: FORMS[form]}))
    epochs = Checkpoint(other).load().numbers["epoch"]
    assert 0 < epochs <= 2 / 3 * max_iter
    if max_iter == 40:
        assert len(plain.history) == epochs

    at_once = SVDKLClassifier(**{**options, **FORMS[form]}).fit(**rows)
    forked = SVDKLClassifier(**{**options, **FORMS[form]}).fit(**rows, checkpoint=other)
    assert [(e.stage, e.held_out_nlp) for e in forked.history_] == [(e.stage, e.held_out_nlp) for e in at_once.history_]
    expected, actual = at_once.model_.state_dict(), forked.model_.state_dict()
    assert list(actual) == list(expected)
    for name, tensor in expected.items():
        assert torch.equal(actual[name], tensor), name


def test_a_fork_of_other_rows_is_refused(tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    other = tmp_path / "svdkl" / "kept"
    options = {**SMALL, "max_iter": 3}
    given = plain_rows(options, X, y)
    fit_model(given, tmp_path / "kept", followed_by(given, {other: FORMS["default"]}))
    with pytest.raises(ValueError, match="same run"):
        SVDKLClassifier(**options).fit(X[10:], y[10:], checkpoint=other)


def test_only_plain_networks_of_classes_have_forks(tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    joint = prepare_table(Options.of(SMALL), Classes, X, y)
    refused(lambda: followed_by(joint, {tmp_path / "kept": FORMS["default"]}), "recipe='dnn'", "'svdkl'")
    real = prepare_table(Options.of({**SMALL, "recipe": "dnn"}), Reals, X, y)
    refused(lambda: followed_by(real, {tmp_path / "kept": FORMS["default"]}), "classes", "regression")
    assert followed_by(joint, {}) is None
