"""The estimators: what they promise beyond scikit-learn's checks."""

import copy
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from refusals import refused
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from torch import nn

from svdkl import SVDKLClassifier, SVDKLRegressor
from svdkl.estimators.building import network_options, training_config
from svdkl.estimators.examples import held_out_rows
from svdkl.estimators.options import Options
from svdkl.training import recipe as recipe_module
from svdkl.training.config import RECIPES

SMALL = {
    "hidden": (32,),
    "num_features": 8,
    "grid_size": 8,
    "max_iter": 12,
    "learning_rate_init": 2e-2,
    "batch_size": 64,
    "evidence": False,
    "random_state": 0,
}


def blobs(num_rows=200, seed=0, std=2.0):
    X, y = make_blobs(num_rows, centers=3, random_state=seed, cluster_std=std)
    return X, np.array(["a", "b", "c"])[y]


@pytest.fixture(scope="module")
def fitted():
    return SVDKLClassifier(**SMALL).fit(*blobs())


# ---------------------------------------------------------------------------------------------------------- learning


@pytest.mark.parametrize("gps", ["features", "outputs"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_learns(recipe, gps):
    X, y = blobs(std=1.0)
    model = SVDKLClassifier(**{**SMALL, "max_iter": 30, "recipe": recipe, "gps": gps}).fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.n_iter_ == len(model.history_) <= (40 if recipe == "dnn_gp" else 30)  # the head's come on top
    assert model.loss_ == model.history_[-1].train_loss
    if recipe in ("dnn_gp", "svdkl"):
        assert model.model_.head.gps.num_gps == (8 if gps == "features" else 3)


def test_recipes_start_with_the_same_network():
    options = {**SMALL, "max_iter": 1}
    models = [SVDKLClassifier(**options, recipe=recipe).fit(*blobs()) for recipe in ("dnn", "svdkl")]
    assert models[0].loss_ == models[1].loss_


def test_held_out_evidence_is_fitted_on_held_out_rows_only(monkeypatch):
    X, y = blobs()
    options = {**SMALL, "evidence": True}
    with_evidence = SVDKLClassifier(**options).fit(X, y)
    with monkeypatch.context() as patched:  # evidence=False would choose other epochs, too
        patched.setattr(recipe_module, "fit_held_out_evidence", lambda *_: None)
        without = SVDKLClassifier(**options).fit(X, y)
    # The same network, another posterior, around a centre.
    for one, other in zip(with_evidence.model_.net.parameters(), without.model_.net.parameters(), strict=True):
        assert torch.equal(one, other)
    assert with_evidence.model_.head.gps.banks[0].gps.centre.abs().max() > 0
    assert without.model_.head.gps.banks[0].gps.centre.abs().max() == 0
    # A table too small to hold rows out goes without.
    small = SVDKLClassifier(**{**SMALL, "evidence": True}).fit(X[:60], y[:60])
    assert small.model_.head.gps.banks[0].gps.centre.abs().max() == 0
    assert small.n_iter_ == 12


def test_eval_set_is_what_stopping_looks_at():
    X, y = blobs()
    X_held, y_held = blobs(50, seed=1)
    weight = np.linspace(0, 2, 50)
    options = {**SMALL, "recipe": "dnn", "max_iter": 20}
    model = SVDKLClassifier(**options).fit(X, y, eval_set=(X_held, y_held, weight))
    best = min(epoch.held_out_nlp for epoch in model.history_)
    score = -np.average(model.log_predictive(X_held, y_held), weights=weight)
    assert score == pytest.approx(best, rel=1e-5)
    # All rows of the table are fitted then.
    assert model.fitted_.num_rows_seen == 200
    assert SVDKLClassifier(**options).fit(X, y).fitted_.num_rows_seen == 180


def test_early_stopping_ends_a_stage():
    X, y = blobs()
    patient = SVDKLClassifier(**{**SMALL, "recipe": "dnn", "max_iter": 60, "early_stopping": False}).fit(X, y)
    hasty = SVDKLClassifier(**{**SMALL, "recipe": "dnn", "max_iter": 60, "n_iter_no_change": 2}).fit(X, y)
    assert patient.n_iter_ == 60
    assert hasty.n_iter_ < 60


def test_automatic_sizes_follow_the_table():
    def sizes(num_rows):
        config = training_config(Options(), "classification", num_rows, True, 0)
        return config.batch_size, config.pretrain_epochs, config.joint_epochs

    assert sizes(500) == (32, 67, 33)
    assert sizes(20_000) == (256, 27, 13)
    assert sizes(50_000) == (512, 27, 13)
    assert sizes(100_000) == sizes(120_000) == (512, 27, 13)
    assert sizes(418_328) == (512, 13, 6)
    assert sizes(1_000_000) == (1024, 6, 2)
    assert sizes(3_000_000) == (2048, 3, 1)
    assert sizes(100_000_000) == (2048, 3, 1)


def test_automatic_networks_follow_the_table():
    small, large = (network_options(Options(), "classification", rows) for rows in (99_999, 100_000))
    assert small["dropout"] > large["dropout"]
    assert (small["encoding"], large["encoding"]) == ("piecewise", "both")
    mine = Options(hidden=[7], dropout=0.5, encoding="plain", alpha=0.0)
    assert network_options(mine, "classification", 100)["hidden"] == [7]
    assert network_options(mine, "classification", 10**6)["dropout"] == 0.5
    assert training_config(mine, "classification", 100, True, 0).weight_decay == 0.0


def test_progress_is_printed_when_asked_for(capsys):
    SVDKLClassifier(**{**SMALL, "max_iter": 3}).fit(*blobs())
    assert capsys.readouterr().err == ""
    SVDKLClassifier(**{**SMALL, "max_iter": 3, "verbose": True}).fit(*blobs())
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["network 1", "network 2", "joint 1"]


# ------------------------------------------------------------------------------------------------- repeating oneself


def test_the_same_seed_gives_the_same_bits(fitted):
    X, y = blobs()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    again = SVDKLClassifier(**SMALL).fit(X, y)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    other = SVDKLClassifier(**{**SMALL, "random_state": 1}).fit(X, y)
    assert not np.allclose(other.predict_proba(X), fitted.predict_proba(X))


def test_random_states_of_numpy():
    X, y = blobs()
    states = [np.random.RandomState(3), np.random.RandomState(3)]
    one, other = (SVDKLClassifier(**{**SMALL, "random_state": state}).fit(X, y) for state in states)
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
    # A state moves on, as in scikit-learn.
    assert not np.array_equal(one.fit(X, y).predict_proba(X), other.predict_proba(X))


def test_predictions_do_not_depend_on_the_other_rows(fitted):
    X, _ = blobs(700, seed=3)
    together = fitted.predict_proba(X)
    for rows in (slice(0, 1), slice(17, 18), slice(3, 40), slice(255, 258), slice(600, 700)):
        assert np.array_equal(fitted.predict_proba(X[rows]), together[rows])


def test_predictions_from_many_threads_at_once(fitted):
    X, _ = blobs(600, seed=3)
    expected = fitted.predict_proba(X)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: fitted.predict_proba(X), range(12)):
            assert np.array_equal(result, expected)


def test_copies_predict_the_same(fitted, tmp_path):
    X, _ = blobs()
    expected = fitted.predict_proba(X)
    joblib.dump(fitted, tmp_path / "model")
    for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted)), joblib.load(tmp_path / "model")):
        assert np.array_equal(other.predict_proba(X), expected)


# ----------------------------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize("kind", [SVDKLClassifier, SVDKLRegressor])
def test_a_whole_weight_is_that_many_rows_to_the_last_bit(kind):
    X, y = blobs(150)
    y = y if kind is SVDKLClassifier else X[:, 0] * X[:, 1]
    weight = np.random.default_rng(0).integers(0, 4, 150)
    weighted = kind(**SMALL).fit(X, y, sample_weight=weight)
    repeated = kind(**SMALL).fit(np.repeat(X, weight, 0), np.repeat(y, weight))
    assert weighted.fitted_.num_rows_seen == repeated.fitted_.num_rows_seen
    assert np.array_equal(weighted.predict(X), repeated.predict(X))


def test_the_order_of_rows_does_not_matter():
    X, y = blobs(150)
    order = np.random.default_rng(1).permutation(150)
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "yes", "no"), "c": X[:, 1]})
    one = SVDKLClassifier(**SMALL).fit(frame, y)
    other = SVDKLClassifier(**SMALL).fit(frame.iloc[order], y[order])
    assert np.array_equal(one.predict_proba(frame), other.predict_proba(frame))


def test_weights_that_are_not_whole_shift_the_probabilities():
    X, y = blobs(300, std=6.0)
    plain = SVDKLClassifier(**SMALL).fit(X, y)
    heavy = SVDKLClassifier(**SMALL).fit(X, y, sample_weight=np.where(y == "b", 10.5, 1.0))
    by_class = SVDKLClassifier(**SMALL, class_weight={"b": 10.5}).fit(X, y)
    assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.2
    assert by_class.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.2


def test_class_weights_are_relative():
    X, y = blobs(150, std=5.0)
    one = SVDKLClassifier(**SMALL, class_weight={"b": 4.0}).fit(X, y)
    other = SVDKLClassifier(**SMALL, class_weight={"a": 1024.0, "b": 4096.0, "c": 1024.0}).fit(X, y)
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
    refused(lambda: SVDKLClassifier(**SMALL, class_weight={"a": 0, "b": 0, "c": 0}).fit(X, y), "zero weight")


def test_balanced_classes():
    X, y = blobs(400, std=5.0)
    kept = (y != "b") | (np.arange(400) % 8 == 0)
    X, y = X[kept], y[kept]
    plain = SVDKLClassifier(**SMALL).fit(X, y)
    balanced = SVDKLClassifier(**SMALL, class_weight="balanced").fit(X, y)
    assert (balanced.predict(X) == "b").sum() > (plain.predict(X) == "b").sum() + 10


def test_held_out_rows_keep_the_shares_of_classes():
    codes = np.repeat([0, 1, 2, 3], [700, 280, 19, 1])
    fit, held = held_out_rows(codes, 0.1, seed=0)
    assert sorted([*fit, *held]) == list(range(1000))
    assert np.abs(np.bincount(codes[held], minlength=4) - [70, 28, 1.9, 0.1]).max() <= 1
    assert set(codes[fit]) == {0, 1, 2, 3}
    for seed in range(50):  # a class of one row is never held out
        assert 999 in held_out_rows(codes, 0.5, seed)[0]
    assert held_out_rows(codes[:94], 0.1, seed=0) is None
    assert not np.array_equal(held_out_rows(codes, 0.1, seed=1)[1], held)


# ------------------------------------------------------------------------------------------------------------ inputs


def test_tables_of_all_libraries_are_the_same():
    X, y = blobs()
    columns = {
        "size": X[:, 0],
        "colour": np.where(X[:, 1] > 0, "red", "blue"),
        "missing": np.where(y == "a", np.nan, 1),
    }
    pandas = pd.DataFrame(columns)
    model = SVDKLClassifier(**{**SMALL, "max_iter": 30}).fit(pandas, y)
    assert model.feature_names_in_.tolist() == ["size", "colour", "missing"]
    assert model.n_features_in_ == 3
    expected = model.predict_proba(pandas)
    assert (expected.argmax(1) == model.classes_.searchsorted(y)).mean() > 0.8
    for table in (pl.DataFrame(columns), pa.table(columns), pa.RecordBatch.from_pydict(columns)):
        again = SVDKLClassifier(**{**SMALL, "max_iter": 30}).fit(table, y)
        assert again.feature_names_in_.tolist() == ["size", "colour", "missing"]
        assert np.allclose(again.predict_proba(table[:37]), model.predict_proba(pandas[:37]), atol=1e-6)


def test_a_network_of_ones_own_on_images():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 160)
    X = rng.normal(size=(160, 1, 6, 6)) + y[:, None, None, None]
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5), nn.ReLU())
    state = copy.deepcopy(net.state_dict())
    model = SVDKLClassifier(**SMALL, net=net).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.model_.head.num_features == 5
    assert model.encoder_ is None
    assert all(torch.equal(tensor, state[name]) for name, tensor in net.state_dict().items())  # a copy was trained
    refused(lambda: model.predict(X[:, :, :5]), "(1, 6, 6)", "(1, 5, 6)")
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full((2, 1, 6, 6), np.nan))
    refused(lambda: SVDKLClassifier(**SMALL, net=nn.Conv2d(1, 4, 3)).fit(X, y), "flatten")


def test_importing_the_package_does_not_import_scikit_learn():
    code = "import svdkl, sys; print({'sklearn', 'pyarrow', 'pandas'} & set(sys.modules)); svdkl.SVDKLRegressor"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# --------------------------------------------------------------------------------------------------- chunks and more


def test_partial_fit_goes_on_learning():
    X, y = blobs(600, std=2.0)
    model = SVDKLClassifier(**{**SMALL, "max_iter": 3}).partial_fit(X[:100], y[:100], classes=["a", "b", "c", "d"])
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    first, epochs = model.log_predictive(X[500:], y[500:]).mean(), model.n_iter_
    encoder = model.encoder_
    for start in range(100, 500, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
    assert model.log_predictive(X[500:], y[500:]).mean() > first
    assert model.n_iter_ == epochs + 4
    assert model.fitted_.num_rows_seen == 90 + 400
    assert model.encoder_ is encoder


@pytest.mark.parametrize("recipe", RECIPES)
def test_chunks_are_learned_by_every_recipe(recipe):
    X, y = blobs(400)
    model = SVDKLClassifier(**{**SMALL, "max_iter": 3, "recipe": recipe}).partial_fit(X[:200], y[:200], ["a", "b", "c"])
    net = copy.deepcopy(model.model_.net.state_dict())
    before = model.log_predictive(X, y).mean()
    model.partial_fit(X[200:], y[200:])
    assert model.log_predictive(X, y).mean() > before
    same = all(torch.equal(net[name], tensor) for name, tensor in model.model_.net.state_dict().items())
    assert same == (recipe == "dnn_gp")  # whose network is frozen


def test_warm_start_goes_on_from_the_model():
    X, y = blobs()
    options = {**SMALL, "max_iter": 4, "warm_start": True}
    model = SVDKLClassifier(**options).fit(X, y)
    first = model.log_predictive(X, y).mean()
    model.set_params(evidence=True).fit(X, y)
    assert model.history_[4].held_out_nlp < model.history_[0].held_out_nlp
    assert model.log_predictive(X, y).mean() > first
    assert model.n_iter_ == 8
    assert model.model_.head.gps.banks[0].gps.centre.abs().max() > 0
    cold = SVDKLClassifier(**{**options, "warm_start": False}).fit(X, y).fit(X, y)
    assert cold.n_iter_ == 4
    refused(lambda: model.fit(X, np.where(y == "a", "z", y)), "'z'")


def test_uncertainty_adds_up_and_grows_away_from_the_data():
    X, y = blobs()
    model = SVDKLClassifier(**{**SMALL, "evidence": True}).fit(X, y)
    parts = model.predict_uncertainty(X)
    np.testing.assert_allclose(parts.total, parts.aleatoric + parts.epistemic, atol=1e-5)
    assert parts.total.shape == parts.ood_score.shape == (200,)
    assert parts.latent_variance.shape == (200, 3)
    assert parts.ood_score.mean() < model.predict_uncertainty(X + 40).ood_score.mean()


# ---------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("recipe", "gp"),
        ("gps", "none"),
        ("hidden", 512),
        ("hidden", (0,)),
        ("hidden", np.array(16)),
        ("hidden", np.array([16.5])),
        ("num_features", 0),
        ("dropout", 1.0),
        ("encoding", "bins"),
        ("max_iter", 0),
        ("max_iter", "some"),
        ("batch_size", 2.5),
        ("joint_batch_size", 0),
        ("learning_rate_init", -1.0),
        ("alpha", float("nan")),
        ("validation_fraction", 1.0),
        ("n_iter_no_change", 0),
        ("kernel", "linear"),
        ("posterior", "full"),
        ("grid_size", 2),
        ("device", "toaster"),
        ("device", "meta"),
        ("net", "mlp"),
        ("class_weight", "fair"),
        ("class_weight", {"z": 1.0}),
    ],
)
def test_bad_parameters_are_refused_by_fit(name, value):
    refused(lambda: SVDKLClassifier(**{**SMALL, name: value}).fit(*blobs(40)))


def test_bad_data_is_refused(fitted):
    X, y = blobs(40)
    model = SVDKLClassifier(**SMALL)
    refused(lambda: model.fit(X, np.full(40, "a")), "1 class", "'a'")
    refused(lambda: model.fit(X[:1], y[:1]), "1 class")
    refused(lambda: SVDKLRegressor(**SMALL).fit(X[:1], X[:1, 0]), "n_samples=1")
    refused(lambda: model.fit(np.ones((40, 2)), y), "varies")
    refused(lambda: model.fit(X, y, sample_weight=-np.ones(40)), "at least 0")
    refused(lambda: model.fit(X, y, sample_weight=np.ones(39)), "(39,)")
    refused(lambda: model.fit(X, y, eval_set=X), "eval_set")
    refused(lambda: model.fit(X, y, eval_set=(X, np.full(40, "z"))), "'z'")
    refused(lambda: model.fit(np.where(X > 0, np.inf, X), y), "finite")
    refused(lambda: model.fit(X, None), "requires y")
    refused(lambda: model.partial_fit(X, y), "classes")
    refused(lambda: SVDKLClassifier(class_weight="balanced").partial_fit(X, y, classes=["a"]), "balanced")
    refused(lambda: fitted.predict(X[:0]), "0 sample(s)")
    refused(lambda: fitted.log_predictive(X, np.full(40, "z")), "'z'")
    refused(lambda: SVDKLClassifier(**SMALL, recipe="dnn").fit(X, y).predict_uncertainty(X), "recipe='dnn'")
    with pytest.raises(NotFittedError):
        model.predict_uncertainty(X)
    with pytest.raises(ValueError, match="expecting 2 features"):
        fitted.predict(X[:, :1])


def test_an_infinite_held_out_score_is_saved_and_loaded(tmp_path):
    """An epoch that called a held-out row impossible is no reason to lose the model."""
    X, y = make_blobs(60, random_state=0)
    model = SVDKLClassifier(hidden=(4,), num_features=2, grid_size=8, max_iter=3).fit(X, y)
    model.history_[0] = replace(model.history_[0], held_out_nlp=float("inf"))
    model.save(tmp_path / "model")
    assert SVDKLClassifier.load(tmp_path / "model").history_ == model.history_


@pytest.mark.parametrize("num_rows", [10_000, 1_000_000])
def test_the_papers_posterior_goes_slower_than_ours(num_rows):
    paper = training_config(Options(gps="outputs"), "classification", num_rows, True, 0)
    ours = training_config(Options(), "classification", num_rows, True, 0)
    assert paper.variational_rate < 0.1 * ours.variational_rate
    assert paper.kernel_rate < ours.kernel_rate
    assert paper.net_rate == ours.net_rate
