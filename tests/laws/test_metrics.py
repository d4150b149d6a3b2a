"""Laws of metrics: values of perfect predictions, bounds, weights, units, and that the order of rows plays no part."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svdkl.metrics import (
    METRICS,
    auroc_ood,
    bounds_coverage,
    crps_ensemble,
    crps_gaussian,
    evaluate_classification,
    evaluate_regression,
    fpr95,
    gaussian_nlpd,
    mae,
    pinball_loss,
    reliability_curve,
    rmse,
)

seeds = st.integers(0, 2**31)
sizes = st.integers(1, 40)


def random_classes(seed: int, num_rows: int, num_classes: int):
    """Draw probabilities in steps of a tenth, so that there are many ties."""
    random = np.random.default_rng(seed)
    p = random.multinomial(10, random.dirichlet(np.ones(num_classes)), size=num_rows) / 10
    return p, random.integers(num_classes, size=num_rows), random.integers(0, 4, size=num_rows), random


def random_targets(seed: int, num_rows: int, num_outputs: int):
    random = np.random.default_rng(seed)
    shape = (num_rows, num_outputs) if num_outputs > 1 else (num_rows,)
    mean, std = random.normal(size=shape).round(1), random.gamma(2.0, size=shape)
    return mean, std, (mean + std * random.normal(size=shape)).round(1), random.integers(0, 4, size=num_rows), random


def same(a: dict[str, float], b: dict[str, float]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert np.isclose(a[name], b[name], rtol=1e-9, atol=1e-12, equal_nan=True), name


def regression(mean, std, y, weight=None) -> dict[str, float]:
    """Compute the metrics of a Gaussian, and the others on bounds and samples made of it."""
    return evaluate_regression(mean, std, y, weight) | {
        "pinball_loss": pinball_loss(mean, y, 0.3, weight),
        "bounds_coverage": bounds_coverage(mean - std, mean + std, y, weight),
        "crps_ensemble": crps_ensemble(np.stack([mean - std, mean, mean + 2 * std]), y, weight),
    }


@given(seeds, sizes, st.integers(2, 5))
def test_classification_does_not_depend_on_the_order_of_rows(seed, num_rows, num_classes):
    p, y, w, random = random_classes(seed, num_rows, num_classes)
    order = random.permutation(num_rows)
    same(evaluate_classification(p[order], y[order]), evaluate_classification(p, y))
    w[0] = 1
    same(evaluate_classification(p[order], y[order], w[order]), evaluate_classification(p, y, w))


@given(seeds, sizes, st.integers(2, 5))
def test_a_weight_repeats_a_row_and_only_ratios_of_weights_count(seed, num_rows, num_classes):
    p, y, w, _ = random_classes(seed, num_rows, num_classes)
    w[0] = 1
    weighted = evaluate_classification(p, y, w)
    same(weighted, evaluate_classification(p.repeat(w, 0), y.repeat(w)))
    same(weighted, evaluate_classification(p, y, 0.37 * w))
    for bins in ("width", "mass"):
        a = reliability_curve(p, y, 7, bins, w)
        b = reliability_curve(p.repeat(w, 0), y.repeat(w), 7, bins)
        for left, right in zip(a, b, strict=True):
            assert np.allclose(left, right, equal_nan=True)
        assert np.isclose(a.counts.sum(), w.sum())


@given(seeds, sizes, st.integers(2, 5))
def test_bounds_of_classification(seed, num_rows, num_classes):
    p, y, _, random = random_classes(seed, num_rows, num_classes)
    values = evaluate_classification(p, y, random.exponential(size=num_rows))
    assert values["negative_log_probability"] >= 0
    for name, value in values.items():
        largest = 2 if name == "brier_score" else 1
        if name == "auroc" and math.isnan(value):
            assert len(np.unique(y)) == 1
        elif name != "negative_log_probability":
            assert -1e-12 <= value <= largest + 1e-12, name
    # Neither error can be less than the gap in a single bin.
    gap = abs(reliability_curve(p, y, 1).confidence - reliability_curve(p, y, 1).accuracy)[0]
    unweighted = evaluate_classification(p, y)
    assert unweighted["expected_calibration_error"] >= gap - 1e-12
    assert unweighted["adaptive_calibration_error"] >= gap - 1e-12


@given(seeds, st.integers(2, 40), st.integers(2, 5))
def test_perfect_and_worst_classification(seed, num_rows, num_classes):
    _, y, _, random = random_classes(seed, num_rows, num_classes)
    y[:2] = 0, 1
    weight = random.exponential(size=num_rows)
    best = evaluate_classification(np.eye(num_classes)[y], y, weight)
    assert best == {name: float(METRICS[name].higher_is_better) for name in best}
    worst = evaluate_classification(np.eye(num_classes)[(y + 1) % num_classes], y, weight)
    assert worst["accuracy"] == 0
    assert np.isclose(worst["brier_score"], 2)
    assert np.isclose(worst["aurc"], 1)
    assert np.isclose(worst["expected_calibration_error"], 1)
    assert np.isclose(worst["adaptive_calibration_error"], 1)


@given(seeds, sizes)
def test_auroc_of_the_other_class_is_the_complement(seed, num_rows):
    p, y, _, _ = random_classes(seed, num_rows, 2)
    flipped = evaluate_classification(p[:, ::-1], 1 - y)["auroc"]
    assert np.isclose(flipped, evaluate_classification(p, y)["auroc"], equal_nan=True)
    if 0 < y.sum() < num_rows:
        assert np.isclose(evaluate_classification(p[:, ::-1], y)["auroc"], 1 - flipped)


@given(seeds, sizes, st.integers(1, 3))
def test_regression_does_not_depend_on_order_and_a_weight_repeats_a_row(seed, num_rows, num_outputs):
    mean, std, y, w, random = random_targets(seed, num_rows, num_outputs)
    w[0] = 1
    order = random.permutation(num_rows)
    same(regression(mean[order], std[order], y[order], w[order]), regression(mean, std, y, w))
    same(regression(mean.repeat(w, 0), std.repeat(w, 0), y.repeat(w, 0)), regression(mean, std, y, w))
    same(regression(mean, std, y, 0.37 * w), regression(mean, std, y, w))


@given(seeds, sizes, st.floats(0.01, 100), st.floats(-100, 100))
def test_regression_in_another_unit(seed, num_rows, scale, shift):
    """y -> a y + b: errors scale by a, log densities shift by log a, coverage stays."""
    mean, std, y, _, _ = random_targets(seed, num_rows, 1)
    before = regression(mean, std, y)
    # We stay away from the ends of intervals, where rounding would decide.
    after = regression(scale * mean + shift, scale * std * (1 + 1e-9), scale * y + shift)
    for name, value in before.items():
        unit = METRICS[name].unit
        expected = value * scale if unit == "target" else value + math.log(scale) if unit == "nats" else value
        assert np.isclose(after[name], expected, rtol=1e-6, atol=1e-6), name


@given(seeds, sizes)
def test_bounds_and_perfection_of_regression(seed, num_rows):
    mean, std, y, _, _ = random_targets(seed, num_rows, 1)
    assert 0 < crps_gaussian(mean, std, y) < mae(mean, y) + std.mean()
    assert mae(mean, y) <= rmse(mean, y) + 1e-12
    assert crps_gaussian(mean, std, y) >= crps_gaussian(y, std, y) - 1e-12
    assert gaussian_nlpd(mean, std, y) >= gaussian_nlpd(y, std, y)
    perfect = regression(y, np.full(num_rows, 1e-12), y)
    for name in ("rmse", "mae", "pinball_loss"):
        assert perfect[name] == 0
    assert 0 < perfect["crps_gaussian"] < 1e-12
    assert perfect["interval_coverage"] == perfect["bounds_coverage"] == 1


@given(seeds)
def test_coverage_grows_with_the_probability(seed):
    mean, std, y, _, _ = random_targets(seed, 30, 1)
    function = METRICS["interval_coverage"].function
    covered = [function(mean, std, y, probability) for probability in (0.01, 0.2, 0.5, 0.8, 0.99)]
    assert covered == sorted(covered)


@given(seeds, st.sampled_from([0.1, 0.5, 0.8]))
def test_the_quantile_has_the_least_pinball_loss(seed, q):
    y = np.random.default_rng(seed).normal(size=101)
    losses = [pinball_loss(np.full(101, candidate), y, q) for candidate in np.sort(y)]
    assert np.argmin(losses) == math.ceil(q * 101) - 1


@given(seeds, sizes, sizes)
def test_ood_metrics_depend_on_ranks_only(seed, num_in, num_out):
    random = np.random.default_rng(seed)
    inside, outside = random.normal(size=num_in).round(1), random.normal(1, size=num_out).round(1)
    for metric in (auroc_ood, fpr95):
        value = metric(inside, outside)
        assert 0 <= value <= 1
        assert metric(np.exp(inside), np.exp(outside)) == value
        assert metric(random.permutation(inside), random.permutation(outside)) == value
        assert np.isclose(metric(inside.repeat(3), outside.repeat(3)), value)
    assert np.isclose(auroc_ood(outside, inside), 1 - auroc_ood(inside, outside))
    assert auroc_ood(inside, inside.max() + 0.1 + np.abs(outside)) == 1
    assert fpr95(inside, inside.max() + 0.1 + np.abs(outside)) == 0


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.kind == "classification"])
def test_one_row_will_do(name):
    value = METRICS[name].function([[0.2, 0.8]], [1])
    assert isinstance(value, float)
    assert math.isnan(value) == (name == "auroc")
