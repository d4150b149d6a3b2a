"""The rivals: each fits, predicts in the target's unit, and is the same for the same seed."""

import dataclasses
import time

import numpy as np
import pyarrow as pa
import pytest
import torch
from refusals import refused
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from svdkl.estimators import fitting
from svdkl.metrics import accuracy, gaussian_nlpd, negative_log_probability, rmse
from svdkl_research.rivals import MODELS, TITLES, make_baseline
from svdkl_research.rivals.boosting import BoostingClassifier, BoostingRegressor
from svdkl_research.rivals.d_gplvm import LatentVariableClassifier
from svdkl_research.rivals.ensemble import EnsembleClassifier, EnsembleRegressor
from svdkl_research.rivals.interface import ClassBaseline, Gaussian, RealBaseline
from svdkl_research.rivals.klsp_gp import SparseGPClassifier, expected_log_likelihood
from svdkl_research.rivals.laplace import LaplaceClassifier, gauss_newton
from svdkl_research.rivals.matrix import MOST_LABELS, CodedMatrix, OneHotMatrix
from svdkl_research.rivals.mc_gp import SampledGPClassifier
from svdkl_research.rivals.networks import NetworkClassifier, NetworkRegressor
from svdkl_research.rivals.savi_gp import MixtureGPClassifier
from svdkl_research.rivals.sparse_classifier import predictive
from svdkl_research.rivals.svgp import SparseGP
from svdkl_research.rivals.svm import MarginSoftmax, SupportVectorMachine, pair_scores, pair_weights, some_of_each_class
from svdkl_research.rivals.temperature import deviation_factor


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
    "svm": lambda: SupportVectorMachine(search_rows=150),
    "klsp_gp": lambda: SparseGPClassifier(inducing=30, steps=90, batch_size=200, rate=0.1),
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
    if name in ("lightgbm", "svm", "klsp_gp"):
        again = CLASSIFIERS[name]()
        again.fit(*train, *held_out, seed=0)
        assert np.array_equal(again.predict_proba(test[0]), p)
    if name == "lightgbm":
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


@pytest.mark.parametrize("name", ["svm", "klsp_gp"])
def test_kernel_machines_with_three_classes(name):
    random = np.random.default_rng(0)
    x, place = random.normal(size=(800, 2)), random.integers(3, size=800)
    # Which class it is says the text where there is one, else the angle; numbers are missing now and then.
    known = random.random(800) < 0.4
    turn = np.arctan2(x[:, 1], x[:, 0]) + 0.1 * random.normal(size=800)
    labels = np.where(known, place, (turn // (2 * np.pi / 3)).astype(np.int64) % 3)
    numbers = pa.array(x[:, 0], mask=random.random(800) < 0.05)
    texts = pa.array(["abc"[p] if k else None for p, k in zip(place, known)])
    table = pa.table({"u": numbers, "v": x[:, 1], "place": texts})
    few = np.flatnonzero(labels[500:600] != 1) + 500  # validation rows without one of the classes
    model = CLASSIFIERS[name]()
    model.fit(table.slice(0, 500), labels[:500], table.take(pa.array(few)), labels[few], seed=1)
    p, truth = model.predict_proba(table.slice(600)), labels[600:]
    assert p.shape == (200, 3)
    assert p.dtype == np.float64
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-12)
    assert (p > 0).all()
    assert accuracy(p, truth) > (0.75 if name == "klsp_gp" else 0.7)
    shares = np.bincount(labels[:500]) / 500
    assert negative_log_probability(p, truth) < negative_log_probability(np.tile(shares, (200, 1)), truth)
    # A row's answer is its own, even beside as many rows as there are classes.
    np.testing.assert_allclose(model.predict_proba(table.slice(600, 3)), p[:3], atol=1e-5)
    refused(lambda: model.fit(table, np.zeros(800), table, np.zeros(800), 0), f"two classes for {name}")


def test_svm_says_how_many_rows_it_took():
    train, held_out = rows(300, 0, "classification"), rows(100, 1, "classification")
    model = SupportVectorMachine(rows=120, search_rows=60)
    model.fit(*train, *held_out, seed=0)
    found = model.findings()
    assert (found["rows"], found["of_rows"], found["cv_rows"]) == (120, 300, 60)
    assert model.machine.shape_fit_[0] == 120
    y = np.array([0] * 99 + [1])
    for seed in range(3):
        assert 99 in some_of_each_class(y, 10, np.random.default_rng(seed))


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_scores_are_those_of_the_pairs_of_classes(classes):
    random = np.random.default_rng(0)
    x, y = random.normal(size=(80, 2)), random.integers(classes, size=80)
    machine = SVC(gamma=0.5, decision_function_shape="ovo").fit(x, y)
    sign = -1 if classes == 2 else 1
    margins = rbf_kernel(x, machine.support_vectors_, 0.5) @ pair_weights(machine) + sign * machine.intercept_
    np.testing.assert_allclose(margins, sign * machine.decision_function(x).reshape(80, -1), atol=1e-9)
    scores = pair_scores(margins, classes)
    if classes == 2:
        assert np.array_equal(scores.argmax(1), machine.predict(x))
        np.testing.assert_allclose(scores[:, 0] - scores[:, 1], margins[:, 0], atol=1e-9)
    if classes == 3:
        scores = pair_scores(np.array([[0.5, 0.5, 9.0], [-3.0, 9.0, 0.5]]), 3)
        assert scores.argmax(1).tolist() == [0, 1]


def test_margins_become_probabilities():
    random = np.random.default_rng(0)
    scores = random.normal(size=(20_000, 3))
    p = np.exp(2 * scores + [0.5, 0, -0.5])
    p /= p.sum(1, keepdims=True)
    labels = (random.random((20_000, 1)) > p.cumsum(1)).sum(1)
    softmax = MarginSoftmax()
    softmax.fit(scores, labels)
    assert softmax.slope == pytest.approx(2, rel=0.05)
    np.testing.assert_allclose(softmax.bias - softmax.bias.mean(), [0.5, 0, -0.5], atol=0.06)
    # Classes that are told apart, and one that never comes: sure within reason.
    clear = np.array([[9.0, -9, 0]] * 30 + [[-9.0, 9, 0]] * 30)
    softmax.fit(clear, np.repeat([0, 1], 30))
    best = softmax.apply(clear).max(1)
    assert (best > 0.95).all()
    assert (best < 0.995).all()


def test_klsp_gp_keeps_to_its_budget_and_to_its_best_state():
    train, held_out = rows(200, 0, "classification"), rows(100, 1, "classification")
    model = SparseGPClassifier(inducing=20, steps=10**9, seconds=0.3)
    model.fit(*train, *held_out, seed=0)
    assert model.findings()["ended_by_time"]
    model = SparseGPClassifier(inducing=20, steps=60, rate=1.0)  # which is so large that the end is not the best
    model.fit(*train, *held_out, seed=0)
    found = model.findings()
    assert (found["steps"], found["ended_by_time"]) == (60, False)
    p = model.predict_proba(held_out[0])
    assert found["held_out_nlp"] == pytest.approx(negative_log_probability(p, held_out[1]), abs=1e-6)


@pytest.mark.parametrize("latents", [1, 3])
def test_expectations_over_latents_are_those_of_samples(latents):
    mean, variance = torch.tensor([[0.7, -0.3, 1.0]])[:, :latents], torch.tensor([[0.5, 2.0, 1.0]])[:, :latents]
    noise = torch.randn(400_000, latents, generator=torch.Generator().manual_seed(0))
    samples = mean + variance.sqrt() * noise
    p = samples.softmax(1) if latents > 1 else torch.special.ndtr(torch.cat([-samples, samples], 1))
    torch.testing.assert_close(predictive(mean, variance)[0].float(), p.mean(0), atol=3e-3, rtol=0)
    many = 20_000 if latents > 1 else 1
    for label in range(p.shape[1]):
        labels, generator = torch.full((many,), label), torch.Generator().manual_seed(1)
        value = expected_log_likelihood(mean.expand(many, -1), variance.expand(many, -1), labels, generator).mean()
        torch.testing.assert_close(value, p[:, label].log().mean(), atol=2e-2, rtol=0)


def test_curvature_of_the_last_layer_is_the_hessian():
    features, weight = torch.randn(30, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    labels = torch.randint(3, (30,))

    def loss(flat: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(features @ flat.reshape(3, 4).T, labels, reduction="sum")

    expected = torch.func.hessian(loss)(weight.flatten())
    torch.testing.assert_close(gauss_newton(features, weight), expected)


def test_laplace_is_less_sure_than_its_network_and_of_the_same_mind():
    train, held_out, test = (rows(count, seed, "classification") for count, seed in ((300, 0), (100, 1), (200, 2)))
    model = LaplaceClassifier(NetworkClassifier(recipe="dnn", **SMALL))
    model.fit(*train, *held_out, seed=0)
    p, plain = model.predict_proba(test[0]), model.network.predict_proba(test[0])
    np.testing.assert_allclose(p.sum(1), 1)
    assert np.array_equal(p.argmax(1), plain.argmax(1))
    assert (p.max(1) <= plain.max(1) + 1e-6).all()
    assert p.max(1).mean() < plain.max(1).mean() - 1e-4


def test_two_classes_have_the_probability_of_their_difference():
    """The posterior of a linear model with one input, which is 1: logits -d/2 and d/2, each of variance s²/2."""
    d, s = 2.0, 3.0
    model = LaplaceClassifier(NetworkClassifier(recipe="dnn"))
    model.weight, model.directions = torch.tensor([[-d / 2], [d / 2]]).double(), torch.eye(2).double()
    model.curvatures, model.log_precision = torch.full((2,), 2 / s**2 - 1).double(), 0.0
    p = model._probabilities(torch.ones(1, 1).double())[0, 1].item()
    draws = torch.randn(10**5, generator=torch.Generator().manual_seed(0))
    assert p == pytest.approx(torch.sigmoid(d + s * draws).mean().item(), abs=0.015)
    assert p == pytest.approx(torch.sigmoid(torch.tensor(d / (1 + torch.pi / 8 * s**2) ** 0.5)).item())


def test_more_classes_have_about_the_probabilities_of_samples():
    classes, generator = 10, torch.Generator().manual_seed(0)
    x, weight, far = (torch.randn(*size, generator=generator).double() for size in ((60, 4), (classes, 4), (200, 4)))
    model = LaplaceClassifier(NetworkClassifier(recipe="dnn"))
    model.weight, model.log_precision = weight, float(np.log(0.1))
    model.curvatures, model.directions = torch.linalg.eigh(gauss_newton(x, weight))
    model.curvatures = model.curvatures.clamp(min=0)
    scaled = model.directions / (model.curvatures + 0.1).sqrt()
    draws = weight.flatten() + torch.randn(4000, weight.numel(), generator=generator).double() @ scaled.T
    logits = torch.einsum("bp,kcp->kbc", 3 * far, draws.reshape(-1, classes, 4))
    sampled, plain = logits.softmax(2).mean(0), (3 * far @ weight.T).softmax(1)
    p = model._probabilities(3 * far)
    assert (p - sampled).abs().mean() < 0.3 * (plain - sampled).abs().mean()
    assert p.max(1).values.mean().item() == pytest.approx(sampled.max(1).values.mean().item(), abs=0.05)


@pytest.mark.parametrize("recipe", ["dnn", "svdkl"])
def test_findings_say_what_auto_stood_for(recipe, monkeypatch):
    used = []
    train = fitting.train

    def spy(net, head, source, held_out, config, **more):
        used.append(config)
        return train(net, head, source, held_out, config, **more)

    monkeypatch.setattr(fitting, "train", spy)
    fit, held_out = rows(200, 0, "classification"), rows(60, 1, "classification")
    model = NetworkClassifier(recipe=recipe, grid_size=8, hidden=(16,), num_features=4, max_iter=2)
    model.fit(*fit, *held_out, seed=3)
    found = model.findings()
    told = dataclasses.asdict(used[0])
    assert told.pop("evidence_config")["steps"] == found["training"]["evidence_steps"]
    assert told.pop("warm_start_config")["narrow"] == found["training"]["warm_start_narrow"]
    assert told.items() <= found["training"].items()
    assert found["training"]["batch_size"] == 32
    assert found["network"] == model.estimator.fitted_.network
    assert isinstance(found["network"]["dropout"], float)  # while the settings say "auto"
    assert model.settings()["dropout"] == "auto"


def test_an_ensemble_tells_of_all_its_members(tmp_path):
    train, held_out = rows(200, 0, "regression"), rows(60, 1, "regression")
    small = {"hidden": (16,), "num_features": 4, "max_iter": 2}
    model = EnsembleRegressor(lambda: NetworkRegressor(recipe="dnn", **small), 2)
    model.fit(*train, *held_out, seed=0)
    seeds = {member["training"]["seed"] for member in model.findings()["members"]}
    assert len(seeds) == 2
    model.save_history(tmp_path / "history.jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history-member0.jsonl", "history-member1.jsonl"]
    assert len((tmp_path / "history-member1.jsonl").read_text().splitlines()) == 2


def test_seconds_of_all_threads_count(monkeypatch):
    """Whatever the threads of linear algebra do is part of a budget."""
    clock = iter(range(10**6))
    monkeypatch.setattr(time, "process_time", lambda: 0.1 * next(clock))
    monkeypatch.setattr(time, "thread_time", None)  # which counts one of them only
    train, held_out = rows(100, 0, "regression"), rows(50, 1, "regression")
    model = SparseGP(inducing=10, steps=10**9, seconds=0.5)
    model.fit(*train, *held_out, seed=0)
    assert model.findings()["steps"] == 5
    labels = (train[1] > 100).astype(np.int64), (held_out[1] > 100).astype(np.int64)
    rivals = (
        SparseGPClassifier(inducing=10, steps=10**9, seconds=0.5, batch_size=20),
        MixtureGPClassifier(inducing=10, steps=10**9, seconds=0.5, batch_size=20),
        LatentVariableClassifier(latents=2, inducing=5, steps=10**9, seconds=1.0, row_steps=2),
        SampledGPClassifier(inducing=10, start_steps=10**9, warm_up=0, moves=10**9, seconds=4.0),
    )
    for model in rivals:
        model.fit(train[0], labels[0], held_out[0], labels[1], seed=0)
        found = model.findings()
        assert found["ended_by_time"]
        assert found.get("steps", found.get("moves")) <= 40


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


def test_the_deviation_factor_is_the_best_of_all():
    random = np.random.default_rng(0)
    std = random.uniform(0.5, 2, 400)
    predicted = Gaussian(random.normal(size=400), std)
    y = predicted.mean + 3.7 * std * random.normal(size=400)
    factor = deviation_factor(predicted, y)
    assert factor == pytest.approx(3.7, rel=0.1)
    scores = [gaussian_nlpd(predicted.mean, f * std, y) for f in (0.98 * factor, factor, 1.02 * factor)]
    assert scores[1] < min(scores[0], scores[2])


def test_codes_of_labels_never_seen_are_missing():
    matrix = CodedMatrix(pa.table({"n": [1, 2], "t": ["b", "a"]}))
    assert matrix.text_columns == [1]
    coded = matrix.transform(pa.table({"n": [3, None, 5], "t": ["a", "c", None]}))
    np.testing.assert_array_equal(coded, [[3, 0], [np.nan, np.nan], [5, np.nan]])


def test_inputs_of_kernels_are_of_unit_spread_and_mark_gaps():
    table = pa.table({"n": [1.0, 3.0, None, 1.0], "whole": [1, 1, 1, 1], "t": ["b", "a", "b", "b"]})
    matrix = OneHotMatrix(table)
    r = np.sqrt(8) / 3  # of 1, 3 and 1
    expected = [[-2 / 3 / r, 0, 0, 1, 0], [4 / 3 / r, 0, 0, 0, 1], [0, 1, 0, 1, 0], [-2 / 3 / r, 0, 0, 1, 0]]
    np.testing.assert_allclose(matrix.expand(matrix.code(table)), expected, atol=1e-6)
    new = pa.table({"n": [np.inf], "whole": pa.array([None], pa.int64()), "t": ["c"]})
    np.testing.assert_array_equal(matrix.expand(matrix.code(new)), [[0, 1, 0, 0, 0]])
    many = pa.table({"t": [f"{i}" for i in range(MOST_LABELS + 5)] + ["54"]})
    matrix = OneHotMatrix(many)
    inputs = matrix.expand(matrix.code(many))
    assert inputs.shape == (MOST_LABELS + 6, MOST_LABELS + 1)
    np.testing.assert_array_equal(inputs.sum(1), 1)
    assert inputs[-1, 0] == 1


def test_the_papers_form_has_the_papers_minibatches_where_it_names_them():
    def rows_of_a_joint_step(model: str, dataset: str) -> object:
        return make_baseline(model, "classification", dataset).settings()["joint_batch_size"]

    assert rows_of_a_joint_step("svdkl_paper", "flights") == 50_000
    assert rows_of_a_joint_step("svdkl_paper_small_batches", "flights") == "auto"
    paper = make_baseline("svdkl_paper", "classification", "adult").settings()
    assert make_baseline("svdkl_paper_small_batches", "classification", "adult").settings() == paper
    assert rows_of_a_joint_step("svdkl_paper", "adult") == rows_of_a_joint_step("svdkl", "flights") == "auto"


def test_names():
    for name in MODELS:
        assert TITLES[name]
    refused(lambda: make_baseline("forest", "classification"), "lightgbm", "'forest'")
    refused(lambda: make_baseline("svgp", "classification"), "svdkl", "'svgp'")
    assert isinstance(make_baseline("svgp", "regression"), RealBaseline)
    for name in ("dnn", "svm", "klsp_gp"):
        assert isinstance(make_baseline(name, "classification"), ClassBaseline)
    refused(lambda: make_baseline("svm", "regression"), "svgp", "'svm'")
    assert isinstance(make_baseline("ensemble", "regression"), RealBaseline)
