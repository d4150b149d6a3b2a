"""Going on from a fitted model or from a checkpoint: with the same model, the same rows, or not at all."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refused
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV
from torch import nn

import svdkl.estimators.examples as splitting
from svdkl import SVDKLClassifier, SVDKLRegressor
from svdkl.gp.kernels import RBF
from svdkl.training import recipe

SMALL = {"hidden": (16,), "num_features": 4, "grid_size": 8, "max_iter": 2, "evidence": False, "random_state": 0}


def blobs(num_rows=150):
    return make_blobs(num_rows, centers=3, random_state=0, cluster_std=2.0)


@pytest.fixture(scope="module")
def fitted():
    return SVDKLClassifier(**SMALL).fit(*blobs())


# ------------------------------------------------------------------------------------- parameters of a fitted model


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("recipe", "dnn"),
        ("hidden", (8,)),
        ("num_features", 9),
        ("net", nn.Linear(2, 4)),
        ("gps", "outputs"),
        ("grid_size", 16),
        ("kernel", "matern32"),
        ("posterior", "mean_field"),
    ],
)
def test_a_model_is_not_what_its_parameters_say_any_more(fitted, name, value, tmp_path):
    X, y = blobs()
    model = copy.deepcopy(fitted).set_params(**{name: value})
    refused(lambda: model.save(tmp_path / "model"), f"{name}=", "fit a new model")
    refused(lambda: model.partial_fit(X, y), f"{name}=")
    refused(lambda: model.set_params(warm_start=True).fit(X, y), f"{name}=")
    assert list(tmp_path.iterdir()) == []
    model.set_params(warm_start=False).fit(X, y).save(tmp_path / "model")  # a new fit makes it true
    assert np.array_equal(model.predict_proba(X), clone(model).fit(X, y).predict_proba(X))


def test_a_regressors_likelihood_is_part_of_its_model():
    X, y = blobs()
    model = SVDKLRegressor(**SMALL, warm_start=True).fit(X, y)
    refused(lambda: model.set_params(likelihood="poisson").fit(X, y), "likelihood='gaussian'", "got 'poisson'")


def test_other_parameters_may_change(fitted, tmp_path):
    X, y = blobs()
    model = copy.deepcopy(fitted).set_params(max_iter=1, batch_size=16, random_state=3, warm_start=True, verbose=False)
    model.fit(X, y).save(tmp_path / "model")
    assert np.array_equal(SVDKLClassifier.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("options", [{"net": nn.Sequential(nn.Linear(2, 4), nn.ReLU())}, {"kernel": RBF(4)}], ids=str)
def test_copies_go_on(options, tmp_path):
    """Also those of networks and kernels that are objects, which are then no longer the same ones."""
    X, y = blobs()
    model = SVDKLClassifier(**SMALL, **options, warm_start=True).fit(X, y)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.fit(X, y).partial_fit(X, y).n_iter_ == 5
    model.set_params(**copy.deepcopy(options)).fit(X, y)
    refused(lambda: model.set_params(net=nn.Linear(2, 4)).fit(X, y), "net=")


def test_searches_change_what_they_like():
    X, y = blobs()
    search = GridSearchCV(
        SVDKLClassifier(**SMALL, warm_start=True), {"recipe": ["dnn", "svdkl"], "grid_size": [8, 16]}, cv=2
    )
    assert np.isfinite(search.fit(X, y).cv_results_["mean_test_score"]).all()


# ----------------------------------------------------------------------------------------------------- held-out rows


@pytest.mark.parametrize("kept", ["in memory", "on disk"])
def test_a_warm_start_holds_the_same_rows_out(kept, tmp_path, monkeypatch):
    """The evidence is fitted to them because the network has not been: none of them may come from the first fit."""
    X, y = blobs()
    chosen, original = [], splitting.held_out_rows
    monkeypatch.setattr(splitting, "held_out_rows", lambda *given: chosen.append(original(*given)) or chosen[-1])
    model = SVDKLClassifier(**{**SMALL, "random_state": None}, warm_start=True).fit(X, y)
    if kept == "on disk":
        model.save(tmp_path / "model")
        model = SVDKLClassifier.load(tmp_path / "model")
    model.fit(X, y)
    model.set_params(warm_start=False).fit(X, y)
    first, second, anew = (set(held.tolist()) for _, held in chosen)
    assert first == second != anew


# ------------------------------------------------------------------------------------------------------- checkpoints


def test_a_checkpoint_of_other_rows_is_refused(tmp_path):
    """As many rows, encoded alike: only what they hold tells them apart."""
    X = np.random.default_rng(0).random((120, 3)) > 0.5
    y, held = X[:, 0].astype(int), (X[:40], X[:40, 0].astype(int))
    path = tmp_path / "state"
    fit = {"eval_set": held, "checkpoint": path}
    model = SVDKLClassifier(**SMALL).fit(X, y, **fit)
    refused(lambda: SVDKLClassifier(**SMALL).fit(X, 1 - y, **fit), "fingerprint of the rows")
    refused(lambda: SVDKLClassifier(**SMALL).fit(X[:, ::-1].copy(), y, **fit), "fingerprint of the rows")
    weight = np.linspace(0.5, 1.5, 120)
    refused(lambda: SVDKLClassifier(**SMALL).fit(X, y, weight, **fit), "fingerprint of the rows")
    other = {"eval_set": (held[0], 1 - held[1]), "checkpoint": path}
    refused(lambda: SVDKLClassifier(**SMALL).fit(X, y, **other), "fingerprint of the held-out rows")
    again = SVDKLClassifier(**SMALL).fit(X, y, **fit)
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    X, y = np.random.default_rng(0).normal(size=(2, 120, 3))
    SVDKLRegressor(**SMALL, net=net).fit(X, y, checkpoint=tmp_path / "net")
    refused(lambda: SVDKLRegressor(**SMALL, net=net).fit(-X, y, checkpoint=tmp_path / "net"), "fingerprint")


def test_a_warm_start_keeps_no_checkpoint_and_no_history_is_lost(fitted, tmp_path):
    X, y = blobs()
    path, history = tmp_path / "state", tmp_path / "history.jsonl"
    history.write_text("of another fit")
    model = copy.deepcopy(fitted).set_params(warm_start=True)
    refused(lambda: model.fit(X, y, checkpoint=path), "checkpoint=None", "warm_start")
    assert history.read_text() == "of another fit"
    SVDKLClassifier(**SMALL, warm_start=True).fit(X, y, checkpoint=path)  # the first fit is one from the start
    assert history.read_text().count("\n") == 2


@pytest.mark.parametrize("checkpoint", [".", 5, True])
def test_a_checkpoint_is_a_file(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "history.jsonl").write_text("of another fit")
    refused(lambda: SVDKLClassifier(**SMALL).fit(*blobs(), checkpoint=checkpoint), "path of a file")
    assert (tmp_path / "history.jsonl").read_text() == "of another fit"


# ----------------------------------------------------------------------------------------------- fits that are cut off


def cut_off(monkeypatch, name, at_call):
    """Let a function of the recipe's module raise an interrupt when it is called so often."""
    original, calls = getattr(recipe, name), []

    def cut(*arguments, **options):
        calls.append(name)
        if len(calls) == at_call:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(recipe, name, cut)


@pytest.mark.parametrize("at_call", [1, 2], ids=["in the network's stage", "in the joint stage"])
def test_an_interrupted_second_fit_leaves_the_first_one_whole(at_call, tmp_path, monkeypatch):
    X, y = blobs()
    labels = np.array(["low", "middle", "high"])[y]
    model = SVDKLClassifier(**SMALL).fit(X, labels)
    before, classes, history = model.predict_proba(X), model.classes_.tolist(), list(model.history_)
    cut_off(monkeypatch, "run_stage", at_call)
    other = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": y})
    with pytest.raises(KeyboardInterrupt):
        model.fit(other, y > 0)
    assert np.array_equal(model.predict_proba(X), before)
    assert (model.classes_.tolist(), model.history_, model.n_features_in_) == (classes, history, 2)
    assert not hasattr(model, "feature_names_in_")
    model.save(tmp_path / "model")
    assert np.array_equal(SVDKLClassifier.load(tmp_path / "model").predict_proba(X), before)


def test_an_interrupted_warm_start_leaves_the_model_whole(fitted, monkeypatch):
    X, y = blobs()
    model = copy.deepcopy(fitted).set_params(warm_start=True)
    before = model.predict_proba(X)
    cut_off(monkeypatch, "finish", 1)  # when the network has been trained further
    for go_on in (model.fit, model.partial_fit):
        with pytest.raises(KeyboardInterrupt):
            go_on(X, y)
        assert np.array_equal(model.predict_proba(X), before)
        monkeypatch.undo()
        cut_off(monkeypatch, "finish", 1)


def test_a_failed_trial_of_an_encoding_leaves_nothing_behind(monkeypatch):
    X, y = blobs()
    options = {**SMALL, "max_iter": 6, "evidence": True}
    model = SVDKLRegressor(**options, encoding="both").fit(X, y)
    before, network = model.predict(X), copy.deepcopy(model.fitted_.network)
    cut_off(monkeypatch, "run_stage", 2)  # the second trial
    with pytest.raises(KeyboardInterrupt):
        model.set_params(encoding="auto").fit(X, y)
    assert model.fitted_.network == network
    assert np.array_equal(model.predict(X), before)


def test_a_model_that_is_trained_further_by_hand_predicts_as_it_is(fitted):
    """What predictions share is computed anew when the numbers of the head have changed."""
    X, _ = blobs()
    model = copy.deepcopy(fitted)
    before = model.predict_proba(X)
    optimiser = torch.optim.SGD(model.model_.parameters(), lr=0.5)
    rows = model.fitted_.encoder.transform(X)
    (-model.model_.elbo(rows, torch.zeros(len(rows), dtype=torch.long), num_data=len(rows)).value).backward()
    optimiser.step()
    after = model.predict_proba(X)
    assert not np.allclose(after, before)
    assert np.allclose(after, model.model_.predict_proba(rows).detach().numpy(), atol=1e-6)
