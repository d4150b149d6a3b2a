"""GPs on a network that is finished: equal to training by recipe="dnn_gp" from the start."""

import numpy as np
import pytest
import torch
from refusals import refused
from sklearn.datasets import load_diabetes, load_iris

from svdkl import SVDKLClassifier, SVDKLRegressor
from svdkl.training.config import TrainingConfig
from svdkl_research.add_head import watched, with_head

SMALL = {"hidden": (16,), "num_features": 6, "grid_size": 12, "max_iter": 6, "random_state": 3}


def state(estimator) -> dict[str, torch.Tensor]:
    return {name: x.clone() for name, x in estimator.model_.state_dict().items()}


@pytest.mark.parametrize(
    ("kind", "load", "options"),
    [(SVDKLClassifier, load_iris, {}), (SVDKLRegressor, load_diabetes, {"encoding": "plain"})],
)
def test_a_head_added_later_is_the_recipes_own(kind, load, options):
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    fit, held_out = order[30:], order[:30]
    eval_set = X[held_out], y[held_out]
    plain = watched(kind(recipe="dnn", **SMALL, **options)).fit(X[fit], y[fit], eval_set=eval_set)
    before = state(plain)
    added = with_head(plain, X[fit], y[fit], eval_set)
    at_once = kind(recipe="dnn_gp", **SMALL, **options).fit(X[fit], y[fit], eval_set=eval_set)

    expected, actual = state(at_once), state(added)
    assert list(actual) == list(expected)
    for name, tensor in expected.items():
        assert torch.equal(actual[name], tensor), name
    assert added.get_params() == at_once.get_params()
    assert [epoch.stage for epoch in added.history_] == [epoch.stage for epoch in at_once.history_]
    assert added.n_iter_ == at_once.n_iter_
    added.predict_uncertainty(X)

    assert plain.recipe == "dnn"
    for name, tensor in state(plain).items():
        assert torch.equal(before[name], tensor), name


def test_the_network_has_all_its_epochs():
    X, y = load_iris(return_X_y=True)
    options = {**SMALL, "early_stopping": False, "max_iter": 9}
    plain, frozen, joint = (SVDKLClassifier(recipe=r, **options).fit(X, y) for r in ("dnn", "dnn_gp", "svdkl"))
    stages = [[epoch.stage for epoch in model.history_] for model in (plain, frozen, joint)]
    assert stages == [["network"] * 9, ["network"] * 9 + ["joint"] * 3, ["network"] * 6 + ["joint"] * 3]
    for recipe, model in (("dnn", plain), ("dnn_gp", frozen), ("svdkl", joint)):
        config = TrainingConfig(recipe=recipe, pretrain_epochs=6, joint_epochs=3)
        assert config.epochs_in_all == model.n_iter_
        assert config.network_epochs == [epoch.stage for epoch in model.history_].count("network")


def test_a_head_needs_a_plain_network():
    X, y = load_iris(return_X_y=True)
    model = SVDKLClassifier(recipe="dnn_plus", **SMALL).fit(X, y)
    refused(lambda: with_head(model, X, y, (X, y)), "dnn_plus")
