"""GPs on a network that is finished: equal to training by recipe="dnn_gp" from the start."""

import math

import numpy as np
import pytest
import torch
from refusals import refused
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_classification

from svdkl import SVDKLClassifier, SVDKLRegressor
from svdkl.estimators.fitted import Fitted
from svdkl.estimators.fitting import prepare_table
from svdkl.estimators.options import Options
from svdkl.estimators.targets import Classes, Reals
from svdkl.metrics.temperature import Temperature
from svdkl.training.config import TrainingConfig
from svdkl_research.add_head import fit_to_scale, with_head

SMALL = {"hidden": (16,), "num_features": 6, "grid_size": 12, "max_iter": 6, "random_state": 3}
# The network becomes too sure of itself before it has learned all: a temperature finds a later epoch best.
OVERSURE = {"max_iter": 12, "n_iter_no_change": 12, "dropout": 0.0, "learning_rate_init": 0.005}


def state(fitted: Fitted) -> dict[str, torch.Tensor]:
    return {name: x.clone() for name, x in fitted.model.state_dict().items()}


def kept(fitted: Fitted) -> list[int]:
    return [epoch.epoch for epoch in fitted.history if epoch.kept and epoch.stage == "network"]


@pytest.mark.parametrize("evidence", [True, False])
@pytest.mark.parametrize(
    ("kind", "load", "options"),
    [
        (SVDKLClassifier, load_iris, {}),
        (SVDKLClassifier, load_breast_cancer, OVERSURE),
        (SVDKLRegressor, load_diabetes, {"encoding": "plain"}),
    ],
)
def test_a_head_added_later_is_the_recipes_own(kind, load, options, evidence):
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    fit, held_out = order[50:], order[:50]
    eval_set = X[held_out], y[held_out]
    options = {**SMALL, **options, "evidence": evidence}
    targets = Classes if kind is SVDKLClassifier else Reals
    plain, scaled = fit_to_scale(
        prepare_table(Options.of({**options, "recipe": "dnn"}), targets, X[fit], y[fit], eval_set=eval_set)
    )
    assert (scaled is plain) == (load is not load_breast_cancer)
    before = state(plain)
    added = with_head(scaled if evidence else plain, X[fit], y[fit], eval_set)
    at_once = kind(recipe="dnn_gp", **options).fit(X[fit], y[fit], eval_set=eval_set).fitted_

    expected, actual = state(at_once), state(added)
    assert list(actual) == list(expected)
    for name, tensor in expected.items():
        assert torch.equal(actual[name], tensor), name
    assert added.options == at_once.options
    assert kept(added) == kept(at_once)
    assert [epoch.stage for epoch in added.history] == [epoch.stage for epoch in at_once.history]
    added.uncertainty(X)

    assert plain.options.recipe == "dnn"
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
    refused(lambda: with_head(model.fitted_, X, y, (X, y)), "dnn_plus")


def test_a_temperature_is_put_on_the_epoch_that_it_finds_best():
    """The network is too sure long before it has learned all, so that the two epochs differ."""
    X, y = make_classification(1200, 20, n_informative=5, n_classes=3, flip_y=0.2, random_state=0)
    held_out = X[700:], y[700:]
    options = {**SMALL, "hidden": (64, 64), "dropout": 0.0, "learning_rate_init": 5e-3, "max_iter": 18}
    given = prepare_table(Options.of({**options, "recipe": "dnn"}), Classes, X[:700], y[:700], eval_set=held_out)
    plain, scaled = fit_to_scale(given)
    best = {name: min(getattr(epoch, name) for epoch in plain.history) for name in ("held_out_nlp", "scaled_nlp")}
    chances = plain.probabilities(held_out[0])[np.arange(500), held_out[1]]
    assert -np.log(chances).mean() == pytest.approx(best["held_out_nlp"], abs=1e-5)
    temperature = Temperature()
    p = scaled.probabilities(held_out[0])
    assert -np.log(p[np.arange(500), held_out[1]]).mean() > best["held_out_nlp"] + 1e-3  # as it is, that one is worse
    temperature.fit(p, held_out[1])
    prior = 0.5 * (math.log(temperature.value) / 0.5) ** 2 / 500
    after = temperature.apply(p)[np.arange(500), held_out[1]]
    assert prior - np.log(after).mean() == pytest.approx(best["scaled_nlp"], abs=1e-4)
    assert kept(plain) < kept(scaled)
