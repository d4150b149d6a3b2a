"""The rivals: each fits, predicts in the target's unit, and is the same for the same seed."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from refusals import refused

from svdkl.experiments.baselines import MODELS, TITLES, make_baseline, model_of
from svdkl.experiments.baselines.boosting import BoostingClassifier, BoostingRegressor
from svdkl.experiments.baselines.ensemble import EnsembleClassifier, EnsembleRegressor
from svdkl.experiments.baselines.interface import ClassBaseline, Gaussian, RealBaseline
from svdkl.experiments.baselines.laplace import LaplaceClassifier, gauss_newton
from svdkl.experiments.baselines.matrix import CodedMatrix
from svdkl.experiments.baselines.networks import NetworkClassifier, NetworkRegressor
from svdkl.experiments.baselines.svgp import SparseGP
from svdkl.experiments.baselines.temperature import Temperature
from svdkl.metrics import accuracy, gaussian_nlpd, negative_log_probability, rmse


def rows(count: int, seed: int, task: str) -> tuple[pa.Table, np.ndarray]:
    random = np.random.default_rng(seed)
    x, place = random.normal(size=count), random.integers(3, size=count)
    texts = [None if i % 17 == 0 else "abc"[p] for i, p in enumerate(place)]
    table = pa.table({"x": x, "z": random.normal(size=count), "place": pa.array(texts)})
    if task == "classification":
        return table, ((x + place - 1 + 0.3 * random.normal(size=count)) > 0).astype(np.int64)
    return table.select(["x", "z"]), 100 + 10 * (np.sin(2 * x) + 0.1 * random.normal(size=count))


SMALL = {"max_iter": 10, "learning_rate_init": 1e-2, "hidden": (32,), "num_features": 8}
CLASSIFIERS = {
    "lightgbm": lambda: BoostingClassifier(rounds=60),
    "dnn": lambda: NetworkClassifier(recipe="dnn", **SMALL),
    "svdkl_paper": lambda: NetworkClassifier(recipe="svdkl", gps="outputs", evidence=False, **SMALL),
    "ensemble": lambda: EnsembleClassifier(lambda: NetworkClassifier(recipe="dnn", **SMALL), 2),
}
REGRESSORS = {
    "lightgbm": lambda: BoostingRegressor(rounds=60),
    "svgp": lambda: SparseGP(inducing=30, steps=150, rate=0.05),
    "svdkl": lambda: NetworkRegressor(recipe="svdkl", **SMALL),
    "ensemble": lambda: EnsembleRegressor(lambda: NetworkRegressor(recipe="dnn", **SMALL), 2),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes(name):
    train, held_out, test = (rows(count, seed, "classification") for count, seed in ((600, 0), (150, 1), (300, 2)))
    model = CLASSIFIERS[name]()
    assert isinstance(model, ClassBaseline)
    model.fit(*train, *held_out, seed=0)
    p = model.predict_proba(test[0])
    assert p.shape == (300, 2)
    assert accuracy(p, test[1]) > 0.8
    assert model.settings()
    if name == "lightgbm":
        again = CLASSIFIERS[name]()
        again.fit(*train, *held_out, seed=0)
        assert np.array_equal(again.predict_proba(test[0]), p)
        assert len(model.findings()["tried"]) == 2


@pytest.mark.parametrize("name", REGRESSORS)
def test_real_targets(name):
    train, held_out, test = (rows(count, seed, "regression") for count, seed in ((600, 0), (150, 1), (300, 2)))
    model = REGRESSORS[name]()
    assert isinstance(model, RealBaseline)
    model.fit(*train, *held_out, seed=0)
    predicted = model.predict_distribution(test[0])
    spread = test[1].std()
    assert rmse(predicted.mean, test[1]) < 0.6 * spread
    assert gaussian_nlpd(predicted.mean, predicted.std, test[1]) < gaussian_nlpd(
        np.full(300, test[1].mean()), np.full(300, spread), test[1]
    )
    assert model.settings()


def test_svgp_keeps_to_its_budget_and_refuses_gaps():
    train, held_out = rows(300, 0, "regression"), rows(50, 1, "regression")
    model = SparseGP(inducing=20, steps=10**9, seconds=0.3)
    model.fit(*train, *held_out, seed=0)
    assert model.findings()["ended_by_time"]
    holes = pa.table({"x": pa.array([1.0, None] * 150), "z": np.zeros(300)})
    refused(lambda: SparseGP(steps=1).fit(holes, train[1], *held_out, seed=0), "missing values")


def test_curvature_of_the_last_layer_is_the_hessian():
    features, weight = torch.randn(30, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    labels = torch.randint(3, (30,))

    def loss(flat: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(features @ flat.reshape(3, 4).T, labels, reduction="sum")

    expected = torch.func.hessian(loss)(weight.flatten())
    torch.testing.assert_close(gauss_newton(features, weight), expected)


def test_laplace_is_less_sure_than_its_network_and_of_the_same_mind():
    train, held_out, test = (rows(count, seed, "classification") for count, seed in ((300, 0), (100, 1), (200, 2)))
    model = LaplaceClassifier(**SMALL)
    model.fit(*train, *held_out, seed=0)
    p, plain = model.predict_proba(test[0]), model.network.predict_proba(test[0])
    np.testing.assert_allclose(p.sum(1), 1)
    assert np.array_equal(p.argmax(1), plain.argmax(1))
    assert (p.max(1) <= plain.max(1) + 1e-6).all()
    assert p.max(1).mean() < plain.max(1).mean() - 1e-4


class _Fixed(RealBaseline):
    def __init__(self, mean: float, std: float) -> None:
        self.mean, self.std = mean, std

    def fit(self, *arguments: object, **options: object) -> None:
        pass

    def settings(self) -> dict:
        return {}

    def predict_distribution(self, X: pa.Table) -> Gaussian:
        return Gaussian(np.full(X.num_rows, self.mean), np.full(X.num_rows, self.std))


def test_ensemble_has_the_moments_of_the_mixture():
    made = iter([_Fixed(-1.0, 2.0), _Fixed(3.0, 1.0)])
    predicted = EnsembleRegressor(lambda: next(made), 2).predict_distribution(pa.table({"x": [0.0]}))
    assert predicted.mean[0] == 1.0
    assert predicted.std[0] == pytest.approx(np.sqrt((4 + 1) / 2 + 4))


@pytest.mark.parametrize("true", [0.4, 1.0, 2.5])
def test_temperature_is_found(true):
    random = np.random.default_rng(0)
    logits = 3 * random.normal(size=(20_000, 4))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    sharp = p ** (1 / true)
    sharp /= sharp.sum(1, keepdims=True)
    labels = np.array([random.choice(4, p=row) for row in sharp])
    temperature = Temperature()
    temperature.fit(p, labels)
    assert temperature.value == pytest.approx(true, rel=0.03)
    scaled = temperature.apply(p)
    np.testing.assert_allclose(scaled.sum(1), 1)
    assert np.array_equal(scaled.argmax(1), p.argmax(1))
    assert negative_log_probability(scaled, labels) <= negative_log_probability(p, labels) + 1e-6


def test_temperature_bears_probabilities_of_zero():
    temperature = Temperature()
    p = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], dtype=np.float32)
    temperature.fit(p, np.array([0, 1, 1]))
    assert np.isfinite(temperature.apply(p)).all()
    assert temperature.value > 5


def test_codes_of_labels_never_seen_are_missing():
    matrix = CodedMatrix(pa.table({"n": [1, 2], "t": ["b", "a"]}))
    assert matrix.text_columns == [1]
    coded = matrix.transform(pa.table({"n": [3, None, 5], "t": ["a", "c", None]}))
    np.testing.assert_array_equal(coded, [[3, 0], [np.nan, np.nan], [5, np.nan]])


def test_names():
    for name in MODELS:
        assert model_of(name) == name
        assert TITLES[name]
    assert model_of("dnn_temperature") == "dnn"
    refused(lambda: model_of("forest"), "lightgbm", "'forest'")
    refused(lambda: make_baseline("svgp", "classification"), "svdkl", "'svgp'")
    assert isinstance(make_baseline("svgp", "regression"), RealBaseline)
    assert isinstance(make_baseline("dnn", "classification"), ClassBaseline)
    assert isinstance(make_baseline("ensemble", "regression"), RealBaseline)
