"""The registry: every metric under its name, with unit and direction, and the usual ones at once."""

import dataclasses
import math

import numpy as np
import pytest

from svdkl import metrics
from svdkl.metrics import METRICS, evaluate_classification, evaluate_regression

RANDOM = np.random.default_rng(0)
P = RANDOM.dirichlet([0.7, 1.3, 0.4], size=100)
Y = np.array([RANDOM.choice(3, p=p) for p in P])
W = RANDOM.exponential(size=100)
MEAN, STD, TARGETS = RANDOM.normal(size=100), RANDOM.gamma(2.0, size=100), RANDOM.normal(size=100)


def test_every_public_metric_is_registered_under_its_name():
    not_metrics = {"METRICS", "Metric", "ReliabilityCurve", "reliability_curve"}
    functions = {name for name in metrics.__all__ if not name.startswith("evaluate_")} - not_metrics
    assert set(METRICS) == functions
    for name, metric in METRICS.items():
        assert metric.name == name
        assert metric.function is getattr(metrics, name)
        assert metric.unit in {"share", "nats", "probability", "squared probability", "target"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        METRICS["rmse"].unit = "m"


def test_classification_at_once():
    for weight in (None, W):
        values = evaluate_classification(P, Y, weight)
        assert list(values) == [name for name, metric in METRICS.items() if metric.kind == "classification"]
        for name, value in values.items():
            assert value == METRICS[name].function(P, Y, sample_weight=weight)
    assert math.isnan(evaluate_classification(P, np.zeros(100, int))["auroc"])


def test_regression_at_once():
    for weight in (None, W):
        values = evaluate_regression(MEAN, STD, TARGETS, weight)
        for name, value in values.items():
            arguments = (MEAN, TARGETS) if name in ("rmse", "mae") else (MEAN, STD, TARGETS)
            assert value == METRICS[name].function(*arguments, sample_weight=weight)
    assert set(values) == {"rmse", "mae", "gaussian_nlpd", "crps_gaussian", "interval_coverage"}


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.kind == "classification"])
def test_direction_of_classification(name):
    """Probabilities that rows were drawn from score better than the same ones spoilt."""
    random = np.random.default_rng(1)
    p = random.dirichlet([0.5, 0.5, 0.5], size=4000)
    y = np.array([random.choice(3, p=row) for row in p])
    spoilt = p**3 * random.uniform(0.05, 1, size=p.shape)
    spoilt /= spoilt.sum(1, keepdims=True)
    good, bad = METRICS[name].function(p, y), METRICS[name].function(spoilt, y)
    assert (good > bad) == METRICS[name].higher_is_better


@pytest.mark.parametrize("name", [name for name, m in METRICS.items() if m.kind == "regression"])
def test_direction_of_regression(name):
    random = np.random.default_rng(1)
    mean, std = random.normal(size=4000), random.gamma(2.0, size=4000)
    y = mean + std * random.normal(size=4000)
    draws = mean + std * random.normal(size=(10, 4000))
    function, off = METRICS[name].function, 3.0
    values = {
        "rmse": lambda e: function(mean + e, y),
        "mae": lambda e: function(mean + e, y),
        "pinball_loss": lambda e: function(mean + e, y),
        "gaussian_nlpd": lambda e: function(mean + e, std, y),
        "crps_gaussian": lambda e: function(mean + e, std, y),
        "interval_coverage": lambda e: function(mean + e, std, y),
        "bounds_coverage": lambda e: function(mean + e - 1.96 * std, mean + e + 1.96 * std, y),
        "crps_ensemble": lambda e: function(draws + e, y),
    }[name]
    if METRICS[name].higher_is_better is None:
        assert abs(values(0.0) - 0.95) < 0.02 < abs(values(off) - 0.95)
    else:
        assert (values(0.0) > values(off)) == METRICS[name].higher_is_better


@pytest.mark.parametrize("name", [name for name, m in METRICS.items() if m.kind == "ood"])
def test_direction_of_ood(name):
    scores, function = np.linspace(0, 1, 50), METRICS[name].function
    assert (function(scores, scores + 2) > function(scores, scores)) == METRICS[name].higher_is_better
