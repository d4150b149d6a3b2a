"""Metrics of real targets against scikit-learn, scipy and slow definitions."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from sklearn.metrics import mean_absolute_error, mean_pinball_loss, root_mean_squared_error

from svdkl.metrics import (
    bounds_coverage,
    crps_ensemble,
    crps_gaussian,
    gaussian_nlpd,
    interval_coverage,
    mae,
    pinball_loss,
    rmse,
)

RANDOM = np.random.default_rng(2)
MEAN = RANDOM.normal(size=40)
STD = RANDOM.gamma(2.0, size=40)
Y = MEAN + 1.3 * STD * RANDOM.normal(size=40)
W = RANDOM.exponential(size=40)
WEIGHTS = pytest.mark.parametrize("weight", [None, W], ids=["unweighted", "weighted"])


@WEIGHTS
def test_errors_are_those_of_scikit_learn(weight):
    assert np.isclose(rmse(MEAN, Y, weight), root_mean_squared_error(Y, MEAN, sample_weight=weight))
    assert np.isclose(mae(MEAN, Y, weight), mean_absolute_error(Y, MEAN, sample_weight=weight))
    for q in (0.05, 0.5, 0.9):
        expected = mean_pinball_loss(Y, MEAN, alpha=q, sample_weight=weight)
        assert np.isclose(pinball_loss(MEAN, Y, q, weight), expected)
    assert np.isclose(pinball_loss(MEAN, Y), mae(MEAN, Y) / 2)


@WEIGHTS
def test_log_density_is_that_of_scipy(weight):
    expected = np.average(-stats.norm.logpdf(Y, MEAN, STD), weights=weight)
    assert np.isclose(gaussian_nlpd(MEAN, STD, Y, weight), expected)


def crps_by_integration(mean: float, std: float, y: float) -> float:
    """The integral of F² below y and of (1 − F)² above it."""
    below = integrate.quad(lambda t: stats.norm.cdf(t, mean, std) ** 2, min(mean, y) - 12 * std, y)[0]
    above = integrate.quad(lambda t: stats.norm.sf(t, mean, std) ** 2, y, max(mean, y) + 12 * std)[0]
    return below + above


@WEIGHTS
def test_crps_of_a_gaussian_by_integration(weight):
    expected = [crps_by_integration(*row) for row in zip(MEAN, STD, Y)]
    assert np.isclose(crps_gaussian(MEAN, STD, Y, weight), np.average(expected, weights=weight), rtol=1e-6)


def test_crps_of_a_narrow_gaussian_is_the_absolute_error():
    assert np.isclose(crps_gaussian(MEAN, np.full(40, 1e-9), Y), mae(MEAN, Y), rtol=1e-7)
    # Far off and wide, too: nothing overflows, nothing cancels.
    assert np.isclose(crps_gaussian([0.0], [1e-6], [1e6]), 1e6)
    assert np.isclose(crps_gaussian([0.0], [1e6], [0.0]), 1e6 * (np.sqrt(2) - 1) / np.sqrt(np.pi))


@WEIGHTS
@pytest.mark.parametrize("num_samples", [2, 3, 10])
def test_crps_of_samples_pair_by_pair(num_samples, weight):
    random = np.random.default_rng(3)
    x = np.round(MEAN + STD * random.normal(size=(num_samples, 40)), 1)  # with ties
    rows = []
    for i in range(40):
        error = np.mean([abs(a - Y[i]) for a in x[:, i]])
        pairs = [abs(x[s, i] - x[t, i]) for s in range(num_samples) for t in range(num_samples) if s != t]
        rows.append(error - np.mean(pairs) / 2)
    assert np.isclose(crps_ensemble(x, Y, weight), np.average(rows, weights=weight))


@pytest.mark.parametrize("num_samples", [2, 20])
def test_crps_of_samples_is_unbiased(num_samples):
    """The same expectation for few samples as for many: that of the distribution."""
    random = np.random.default_rng(3)
    x = MEAN[:5] + STD[:5] * random.normal(size=(50, num_samples, 10_000 // num_samples, 5))
    y = np.broadcast_to(Y[:5], x.shape[2:])
    scores = [crps_ensemble(part, y) for part in x]
    error = np.std(scores) / np.sqrt(50)
    assert abs(np.mean(scores) - crps_gaussian(MEAN[:5], STD[:5], Y[:5])) < 4 * error < 0.02


def test_crps_of_samples_far_from_zero_loses_no_digits():
    x = np.round(np.random.default_rng(3).normal(size=(101, 40)) * 2**12) / 2**12  # exact after the shift, too
    zero = np.zeros(40)
    assert np.isclose(crps_ensemble(x + 2.0**40, zero + 2.0**40), crps_ensemble(x, zero), rtol=1e-12)


@WEIGHTS
@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9, 0.95, 1 - 1e-16])
def test_coverage_of_a_gaussian_and_of_its_bounds(probability, weight):
    lower, upper = stats.norm.interval(probability, MEAN, STD)
    expected = np.average([low <= y <= high for low, high, y in zip(lower, upper, Y)], weights=weight)
    assert np.isclose(interval_coverage(MEAN, STD, Y, probability, weight), expected)
    assert np.isclose(bounds_coverage(lower, upper, Y, weight), expected)


def test_coverage_counts_the_ends_and_open_bounds():
    assert bounds_coverage([0.0, -np.inf], [1.0, np.inf], [1.0, 5.0]) == 1.0
    assert bounds_coverage([0.0, 0.0], [1.0, 1.0], [1.0, np.nextafter(1.0, 2.0)]) == 0.5


def test_coverage_of_the_truth_is_its_probability():
    random = np.random.default_rng(3)
    y = random.normal(3.0, 2.0, size=100_000)
    covered = interval_coverage(np.full(100_000, 3.0), np.full(100_000, 2.0), y, 0.8)
    assert abs(covered - 0.8) < 4 * np.sqrt(0.8 * 0.2 / 100_000)


def test_several_outputs_are_the_mean_of_each_alone():
    random = np.random.default_rng(3)
    mean, std, y = (values.reshape(20, 2) for values in (MEAN, STD, Y))
    w = W[:20]
    x = mean + std * random.normal(size=(4, 20, 2))
    for metric, arguments in [
        (mae, (mean, y)),
        (pinball_loss, (mean, y)),
        (gaussian_nlpd, (mean, std, y)),
        (crps_gaussian, (mean, std, y)),
        (interval_coverage, (mean, std, y)),
        (bounds_coverage, (mean - std, mean + std, y)),
        (crps_ensemble, (x, y)),
    ]:
        alone = [metric(*(a[..., c] for a in arguments), sample_weight=w) for c in range(2)]
        assert np.isclose(metric(*arguments, sample_weight=w), np.mean(alone)), metric.__name__
    alone = [rmse(mean[:, c], y[:, c], w) for c in range(2)]
    assert np.isclose(rmse(mean, y, w), np.sqrt(np.mean(np.square(alone))))


def test_tensors_and_single_precision_will_do():
    mean, std, y = (torch.tensor(values) for values in (MEAN, STD, Y))
    assert rmse(mean, y) == rmse(MEAN, Y)
    assert crps_gaussian(mean, std, y) == crps_gaussian(MEAN, STD, Y)
    assert np.isclose(gaussian_nlpd(mean.float(), std.float(), y.float()), gaussian_nlpd(MEAN, STD, Y), rtol=1e-5)
    assert crps_ensemble(torch.stack([mean, y]), y) == crps_ensemble([MEAN.tolist(), Y.tolist()], Y.tolist())
    frozen = MEAN.copy()
    frozen.flags.writeable = False
    assert crps_gaussian(frozen, STD, Y) == crps_gaussian(MEAN, STD, Y)
