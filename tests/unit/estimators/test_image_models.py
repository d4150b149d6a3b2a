"""Images through the estimators and through the experiments."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from digits import digits, put_digits
from refusals import refused
from torch import nn

from svdkl import SVDKLClassifier
from svdkl.estimators.examples import order_of_content, read_numbers
from svdkl.nets.convnet import LeNet
from svdkl.nets.images import CropAndFlip, Standardise
from svdkl.nets.resnet import ResNet
from svdkl_research.datasets import SOURCES
from svdkl_research.rivals import MODELS, make_baseline, make_image_baseline
from svdkl_research.rivals.image_networks import BUDGETS, NETWORKS, ImageClassifier, build_network
from svdkl_research.suites.all_suites import QUICK_MODELS, SUITES, get_suite
from svdkl_research.suites.results import read_results
from svdkl_research.suites.suite import Task, parse_only, select
from svdkl_research.suites.task import run_task

TINY = {"recipe": "dnn", "max_iter": 2, "random_state": 0}


def small_net(images: np.ndarray) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Standardise.of(images), CropAndFlip(1, flip=False), LeNet(1, 16, 12))


# -------------------------------------------------------------------------------------------------------- estimators


def test_bytes_stay_bytes_for_a_network_that_reads_them():
    X, y = digits(16)
    X, y = X[:200], y[:200]
    model = SVDKLClassifier(net=small_net(X), **TINY).fit(X, y)
    assert read_numbers(model, X, reset=False).dtype == np.uint8
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-9)
    # The same numbers in other types and in memory that may not be written to are the same images.
    frozen = X.copy()
    frozen.flags.writeable = False
    for same in (X.astype(np.float64), frozen, X[::-1][::-1]):
        np.testing.assert_array_equal(model.predict_proba(same), p)
    assert read_numbers(SVDKLClassifier(net=nn.Flatten()), X, reset=True).dtype == np.float32
    refused(lambda: model.predict(X[:, :, :8]), "(1, 16, 16)", "(1, 8, 16)")


def test_images_may_come_in_any_order():
    X, y = digits(16)
    X, y = X[:150], y[:150]
    shuffled = np.random.default_rng(0).permutation(150)
    ordered = [X[rows][order_of_content(X[rows], y[rows])] for rows in (slice(None), shuffled)]
    np.testing.assert_array_equal(*ordered)
    first, other = (SVDKLClassifier(net=small_net(X), **TINY).fit(X[rows], y[rows]) for rows in (slice(None), shuffled))
    np.testing.assert_array_equal(first.predict_proba(X), other.predict_proba(X))


def test_saved_and_loaded_with_the_scale_of_its_images(tmp_path):
    X, y = digits(16)
    model = SVDKLClassifier(net=small_net(X), **TINY).fit(X[:150], y[:150])
    model.save(tmp_path / "model")
    fresh = nn.Sequential(Standardise([0.0], [1.0]), CropAndFlip(1, flip=False), LeNet(1, 16, 12))
    again = SVDKLClassifier.load(tmp_path / "model", net=fresh)
    np.testing.assert_array_equal(again.predict_proba(X[:50]), model.predict_proba(X[:50]))


def test_averaged_statistics_of_batches_fit_the_averaged_weights():
    """Batch normalisation scores by averages of its running statistics: they are near those of the final weights."""
    X, y = digits(8)
    torch.manual_seed(0)
    net = nn.Sequential(Standardise.of(X), ResNet(8, 1, 8))
    model = SVDKLClassifier(net=net, recipe="dnn", max_iter=6, batch_size=64, random_state=0).fit(X[:1000], y[:1000])
    norms = [module for module in model.model_.net.modules() if isinstance(module, nn.BatchNorm2d)]
    before = model.log_predictive(X[1000:], y[1000:]).mean()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
        norm.train()
    with torch.no_grad():
        model.model_.net(torch.from_numpy(X[:1000]))
    model.model_.eval()
    assert model.log_predictive(X[1000:], y[1000:]).mean() == pytest.approx(before, abs=0.03)
    assert before > -1.9  # which a model that has learned nothing does not reach


# ------------------------------------------------------------------------------------------------------- experiments


def test_budgets_belong_to_sets_and_networks():
    for name, budget in BUDGETS.items():
        assert name in SOURCES
        assert budget.network in NETWORKS
    images = np.zeros((2, 3, 32, 32), np.uint8)
    net = build_network(BUDGETS["cifar10"], images, seed=1)
    assert [type(part).__name__ for part in net] == ["Standardise", "CropAndFlip", "CifarQuick"]
    again, other = (build_network(BUDGETS["cifar10"], images, seed) for seed in (1, 2))
    weights = [next(part.parameters()) for part in (net, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    digits = build_network(BUDGETS["mnist"], images[:, :1], seed=0)
    assert [type(part).__name__ for part in digits] == ["Standardise", "CropAndFlip", "LeNet"]
    assert make_image_baseline("svdkl", "mnist", 3).settings()["max_iter"] == 3
    assert make_image_baseline("svdkl", "mnist", 300).settings()["max_iter"] == BUDGETS["mnist"].epochs
    refused(lambda: ImageClassifier("adult"), "mnist", "'adult'")


def test_models_of_images_and_of_tables_are_apart():
    refused(lambda: make_baseline("cnn", "classification"), "svdkl", "'cnn'")
    refused(lambda: make_image_baseline("lightgbm", "mnist"), "cnn", "'lightgbm'")
    for name in ("images", "resnet", "svhn"):
        suite = SUITES[name]
        assert all(MODELS[model].on_images for model in suite.models)
        assert set(suite.datasets) <= set(BUDGETS)


def test_the_suite():
    images = get_suite("images")
    tasks = list(images.tasks())
    assert len(tasks) == 4 * (2 + 3) + (3 * 2 + 1) * 2 + (4 + 3) + 3
    assert {task.seed for task in tasks if task.dataset == "cifar10"} == {0, 1}
    chosen = select(images, parse_only("dataset=mnist,model=dnn_temperature,seed=2"))
    assert [str(task) for task in chosen] == ["mnist cnn fold0-seed2"]
    quick = get_suite("quick/images")
    assert (quick.models, quick.seeds, quick.max_rows) == (QUICK_MODELS[2:6], (0,), 4000)
    assert len(list(quick.tasks())) == 4 * 4
    assert quick.max_epochs < BUDGETS["mnist"].epochs


@pytest.fixture
def few_digits(tmp_path, monkeypatch):
    """A folder with 300 digits in the place of MNIST, and a small LeNet."""
    put_digits(tmp_path, monkeypatch)
    return tmp_path


@pytest.mark.parametrize("model", ["cnn", "svdkl"])
def test_a_task_from_top_to_bottom(model, few_digits):
    suite = replace(get_suite("quick/images"), max_epochs=3)
    results, scratch = few_digits / "results", few_digits / "scratch"
    run_task(suite, Task(suite.name, "mnist", model, 0, 0), results, scratch, few_digits)
    found = {result.model: result for result in read_results(results, suite)}
    assert set(found) == ({"cnn", "dnn_temperature", "laplace", "cnn_gp"} if model == "cnn" else {model})
    if model == "cnn":  # processes on the finished network: settings, epochs and scores of their own
        with_gps = found["cnn_gp"]
        assert with_gps.config["settings"]["recipe"] == "dnn_gp"
        assert with_gps.config["findings"]["stages"]["network"]["epochs"] == 3
        assert with_gps.config["findings"]["stages"]["joint"]["epochs"] == 1
        assert with_gps.metrics["train_seconds"] > found["cnn"].metrics["train_seconds"]
        assert with_gps.metrics["nlp"] != found["cnn"].metrics["nlp"]
    result = found[model]
    assert result.metrics["accuracy"] > 0.5
    assert (result.metrics["n_fit"], result.metrics["n_test"], result.metrics["n_columns"]) == (180, 100, 784)
    assert result.config["settings"]["budget"]["network"] == "lenet"
    assert "net" not in result.config["settings"]
    assert sum(stage["epochs"] for stage in result.config["findings"]["stages"].values()) == 3
    training = result.config["findings"]["training"]
    assert training["batch_size"] == BUDGETS["mnist"].batch_size
    assert training["pretrain_epochs"] + training["joint_epochs"] == 3
    assert "network" not in result.config["findings"]  # the budget names it
    lines = (scratch / "quick/images/mnist" / model / "fold0-seed0/history.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["stage"] == "network"
