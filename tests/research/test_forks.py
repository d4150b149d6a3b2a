"""SV-DKL that goes on from a plain network's epochs is SV-DKL trained from the start."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from svdkl import SVDKLClassifier
from svdkl.estimators.keeping import Kept
from svdkl.training.checkpoint import Checkpoint

SMALL = {"hidden": (16,), "num_features": 6, "grid_size": 12, "random_state": 3, "dropout": 0.2}
FORMS = {
    "default": {"recipe": "svdkl"},
    "paper": {"recipe": "svdkl", "gps": "outputs", "evidence": False, "joint_batch_size": 100},
}


@pytest.mark.parametrize("max_iter", [6, 40])  # with 40 and a large rate all stop early, before a head comes
def test_a_fork_is_the_recipes_own(tmp_path: Path, max_iter: int) -> None:
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    fit, held_out = order[30:], order[:30]
    rows = {"X": X[fit], "y": y[fit], "eval_set": (X[held_out], y[held_out])}
    options = {**SMALL, "max_iter": max_iter, "learning_rate_init": 1e-3 if max_iter == 6 else 0.05}
    kept = {form: tmp_path / form / "kept" for form in FORMS}
    plain = SVDKLClassifier(recipe="dnn", **options)
    plain.fit(**rows, checkpoint=Kept(tmp_path / "dnn" / "kept", {kept[form]: FORMS[form] for form in FORMS}))
    for form, own in FORMS.items():
        epochs = Checkpoint(kept[form]).load().numbers["epoch"]
        assert 0 < epochs <= 2 / 3 * max_iter
        if max_iter == 40:
            assert plain.n_iter_ == epochs

        at_once = SVDKLClassifier(**{**options, **own}).fit(**rows)
        forked = SVDKLClassifier(**{**options, **own}).fit(**rows, checkpoint=kept[form])
        expected, actual = ([(e.stage, e.held_out_nlp) for e in model.history_] for model in (at_once, forked))
        assert actual == expected
        expected, actual = at_once.model_.state_dict(), forked.model_.state_dict()
        assert list(actual) == list(expected)
        for name, tensor in expected.items():
            assert torch.equal(actual[name], tensor), (form, name)


def test_a_fork_of_other_rows_is_refused(tmp_path: Path) -> None:
    X, y = load_iris(return_X_y=True)
    other = tmp_path / "svdkl" / "kept"
    options = {**SMALL, "max_iter": 3}
    SVDKLClassifier(recipe="dnn", **options).fit(X, y, checkpoint=Kept(tmp_path / "kept", {other: FORMS["default"]}))
    with pytest.raises(ValueError, match="same run"):
        SVDKLClassifier(**options).fit(X[10:], y[10:], checkpoint=other)
