"""Bad input is refused in one sentence: what was expected, what came, what to do."""

import numpy as np
import pytest

from svdkl.metrics import METRICS, bounds_coverage, crps_ensemble, interval_coverage, pinball_loss, reliability_curve

P = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.1, 0.1, 0.8]])
Y = np.array([0, 1, 2, 2])
X = np.array([0.0, 1.0, 2.0, 3.0])
CLASSIFICATION = [m.function for m in METRICS.values() if m.kind == "classification"] + [reliability_curve]
POINT = [METRICS[name].function for name in ("rmse", "mae", "pinball_loss")]
GAUSSIAN = [METRICS[name].function for name in ("gaussian_nlpd", "crps_gaussian", "interval_coverage")]
OOD = [m.function for m in METRICS.values() if m.kind == "ood"]


def refused(function, *parts: str) -> None:
    with pytest.raises(ValueError) as caught:
        function()
    message = str(caught.value)
    assert message.startswith("Expected ")
    assert message.endswith(".")
    assert ", got " in message
    assert ": " in message
    assert "\n" not in message
    for part in parts:
        assert part in message, message


def changed(values: np.ndarray, index: object, value: float) -> np.ndarray:
    values = values.astype(float)
    values[index] = value
    return values


@pytest.mark.parametrize("metric", CLASSIFICATION)
@pytest.mark.parametrize(
    ("p", "y", "parts"),
    [
        (P[:, 0], Y, ["(rows, classes)", "(4,)", "1 - p and p"]),
        (P[None], Y, ["(rows, classes)", "(1, 4, 3)"]),
        (P[:0], Y[:0], ["at least one row", "(0, 3)"]),
        (P[:, :0], Y, ["(4, 0)"]),
        (P, Y[:3], ["labels of shape (4,)", "(3,)"]),
        (P, np.eye(3)[Y], ["labels of shape (4,)", "(4, 3)"]),
        (P, Y.astype(float), ["integer labels", "float64", "from 0 to 2"]),
        (P, np.array(list("abca")), ["integer labels", "<U1"]),
        (P, np.array([0, 1, 3, 2]), ["labels from 0 to 2", "got 3 in row 2"]),
        (P, np.array([0, 1, 1, -1]), ["labels from 0 to 2", "got -1 in row 3"]),
        (changed(P, 1, [-0.1, 0.6, 0.5]), Y, ["at least 0", "got -0.1 in row 1", "softmax"]),
        (changed(P, (3, 1), np.nan), Y, ["at least 0", "got nan in row 3"]),
        (changed(P, (2, 0), 1.002), Y, ["sum to 1", "got 1.002 in row 2"]),
        (changed(P, (2, 0), 0.998), Y, ["sum to 1", "got 0.998 in row 2"]),
        (changed(P, (2, 0), np.inf), Y, ["sum to 1", "got inf in row 2"]),
    ],
)
def test_classes(metric, p, y, parts):
    refused(lambda: metric(p, y), *parts)


@pytest.mark.parametrize("metric", CLASSIFICATION)
def test_sums_to_1_up_to_rounding(metric):
    metric(changed(P, (2, 0), 1.0009), Y)


@pytest.mark.parametrize(
    ("weight", "parts"),
    [
        (np.ones(3), ["weights of shape (4,)", "(3,)"]),
        (np.ones((4, 1)), ["weights of shape (4,)", "(4, 1)"]),
        (np.array(2.0), ["weights of shape (4,)", "()"]),
        ([1, 1, -1, 1], ["at least 0", "got -1.0 in row 2"]),
        ([1, np.nan, 1, 1], ["finite", "got nan in row 1"]),
        ([1, 1, 1, np.inf], ["finite", "got inf in row 3"]),
        (np.zeros(4), ["above 0", "none"]),
    ],
)
def test_weights(weight, parts):
    for metric in CLASSIFICATION:
        refused(lambda metric=metric: metric(P, Y, sample_weight=weight), *parts)
    for metric in POINT:
        refused(lambda metric=metric: metric(X, X, sample_weight=weight), *parts)
    for metric in GAUSSIAN:
        refused(lambda metric=metric: metric(X, X + 1, X, sample_weight=weight), *parts)
    refused(lambda: crps_ensemble(np.stack([X, X]), X, sample_weight=weight), *parts)
    refused(lambda: bounds_coverage(X, X, X, sample_weight=weight), *parts)


@pytest.mark.parametrize(
    ("mean", "y", "parts"),
    [
        (X[:, None], X, ["targets' shape (4,)", "(4, 1)"]),  # would broadcast to (4, 4)
        (X, X[:, None], ["targets' shape (4, 1)", "(4,)"]),
        (X[:3], X, ["targets' shape (4,)", "(3,)"]),
        (X[:0], X[:0], ["at least one row", "(0,)"]),
        (np.array(1.0), np.array(1.0), ["(rows,) or (rows, outputs)", "()"]),
        (X[None, None], X[None, None], ["(rows,) or (rows, outputs)", "(1, 1, 4)"]),
        (X, changed(X, 2, np.nan), ["finite targets", "nan in row 2"]),
        (changed(X, 1, np.inf), X, ["finite", "inf in row 1"]),
    ],
)
def test_targets(mean, y, parts):
    for metric in POINT:
        refused(lambda metric=metric: metric(mean, y), *parts)
    for metric in GAUSSIAN:
        refused(lambda metric=metric: metric(mean, np.ones(np.shape(mean)), y), *parts)


@pytest.mark.parametrize("metric", GAUSSIAN)
@pytest.mark.parametrize(
    ("std", "parts"),
    [
        (changed(X + 1, 2, 0.0), ["std above 0", "got 0.0 in row 2"]),
        (changed(X + 1, 3, -1.0), ["std above 0", "got -1.0 in row 3"]),
        (changed(X + 1, 3, np.nan), ["finite std", "nan in row 3"]),
        (changed(X + 1, 3, np.inf), ["finite std", "inf in row 3"]),
        (np.array(1.0), ["std of the targets' shape (4,)", "()"]),
    ],
)
def test_std(metric, std, parts):
    refused(lambda: metric(X, std, X), *parts)


@pytest.mark.parametrize(
    ("samples", "parts"),
    [
        (X[None], ["(T, 4)", "at least 2", "(1, 4)"]),
        (np.ones((4, 3)), ["(T, 4)", "(4, 3)", "first axis"]),
        (X, ["(T, 4)", "(4,)"]),
        (changed(np.ones((3, 4)), (2, 1), np.nan), ["finite samples", "nan in row 1"]),
    ],
)
def test_samples(samples, parts):
    refused(lambda: crps_ensemble(samples, X), *parts)


def test_bounds():
    refused(lambda: bounds_coverage(X, changed(X, 2, 1.5), X), "lower bounds not above", "got 2.0 in row 2", "swap")
    refused(lambda: bounds_coverage(X, changed(X, 2, np.nan), X), "upper bounds without NaN", "row 2")


@pytest.mark.parametrize("value", [0.0, 1.0, 95.0, -0.1, np.nan])
def test_fractions(value):
    refused(lambda: interval_coverage(X, X + 1, X, value), "probability between 0 and 1", f"got {value}", "0.95")
    refused(lambda: pinball_loss(X, X, value), "quantile between 0 and 1", f"got {value}")


@pytest.mark.parametrize("num_bins", [0, -1])
def test_number_of_bins(num_bins):
    refused(lambda: reliability_curve(P, Y, num_bins), "num_bins of at least 1", f"got {num_bins}")


@pytest.mark.parametrize("metric", OOD)
def test_scores(metric):
    refused(lambda: metric(X[:0], X), "in_scores", "at least one row", "(0,)")
    refused(lambda: metric(X, X[:0]), "out_scores", "at least one row", "(0,)")
    refused(lambda: metric(X[:, None], X), "in_scores", "(4, 1)")
    refused(lambda: metric(X, changed(X, 1, np.nan)), "out_scores without NaN", "nan in row 1")
