"""The suite on images: its budgets, its tasks, and one task from top to bottom."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from refusals import refused

from svdkl_research.datasets import SOURCES
from svdkl_research.rivals import MODELS, make_baseline, make_image_baseline
from svdkl_research.rivals.image_networks import BUDGETS, NETWORKS, ImageClassifier, build_network
from svdkl_research.suites.all_suites import QUICK_MODELS, SUITES, get_suite
from svdkl_research.suites.results import read_results
from svdkl_research.suites.suite import Task, parse_only, select
from svdkl_research.suites.task import run_task


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


@pytest.mark.parametrize("model", ["cnn", "svdkl"])
def test_a_task_from_top_to_bottom(model, few_digits):
    suite = replace(get_suite("quick/images"), max_epochs=3)
    results, scratch = few_digits / "results", few_digits / "scratch"
    run_task(suite, Task(suite.name, "mnist", model, 0, 0), results, scratch, few_digits)
    found = {result.model: result for result in read_results(results, suite)}
    assert set(found) == ({"cnn", "dnn_temperature", "laplace", "cnn_gp"} if model == "cnn" else {model})
    if model == "cnn":  # GPs on the finished network: settings, epochs and scores of their own
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
