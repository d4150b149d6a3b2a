"""Scores of a report: intervals, baselines, calibration and confusions, against independent computations."""

import math

import numpy as np
import pytest
from reported import random_predictions
from scipy import stats
from sklearn import metrics as sklearn_metrics

from svdkl.report.facts import scores as scores_module
from svdkl.report.facts.all_facts import gather
from svdkl.report.facts.scores import (
    LEVELS,
    chance_band,
    class_scores,
    confusion_matrix,
    coverage,
    frequent_confusions,
    of_class,
)

pytestmark = pytest.mark.usefixtures("small_reports")


def test_scores_have_intervals_of_the_right_width_and_an_honest_baseline(monkeypatch):
    monkeypatch.setattr(scores_module, "RESAMPLES", 100)
    predictions = random_predictions(2000)
    scores = {score.metric.name: score for score in class_scores(predictions)}
    accuracy = scores["accuracy"]
    assert accuracy.value == np.mean(predictions.probabilities.argmax(1) == predictions.labels)
    expected = 2 * 1.96 * math.sqrt(accuracy.value * (1 - accuracy.value) / 2000)
    assert 0.7 < (accuracy.high - accuracy.low) / expected < 1.4
    shares = np.bincount(predictions.labels) / 2000
    assert scores["negative_log_probability"].baseline == pytest.approx(stats.entropy(shares))
    assert scores["auroc"].baseline == pytest.approx(0.5)
    for score in scores.values():
        assert 0 <= score.low <= score.value <= score.high
    monkeypatch.setattr(scores_module, "RESAMPLED_ROWS", 500)  # the spread of fewer rows, scaled to all
    fewer = class_scores(predictions)[0]
    assert 0.7 < (fewer.high - fewer.low) / expected < 1.4


def test_scores_of_targets(two_targets):
    X = np.random.default_rng(1).normal(size=(80, 3))
    Y = np.stack([X[:, 0], 100 * X[:, 1]], 1)
    facts = gather(two_targets.fitted_, X, Y, {})
    mean, std = two_targets.predict(X, return_std=True)
    for place, by_name in enumerate(facts.scores):
        assert by_name["rmse"].value == pytest.approx(np.sqrt(np.mean((Y[:, place] - mean[:, place]) ** 2)))
        assert by_name["rmse"].baseline == pytest.approx(Y[:, place].std())
        inside = np.abs(Y[:, place] - mean[:, place]) <= 1.959964 * std[:, place]
        assert by_name["interval_coverage"].value == inside.mean()
    low, high = np.moveaxis(two_targets.predict_quantiles(X, (0.25, 0.75)), -1, 0)
    within = ((low <= Y) & (high >= Y)).mean(0)
    for place in (0, 1):
        assert coverage(facts.predictions, place).observed[LEVELS == 0.5] == within[place]


def test_reliability_of_a_class():
    predictions = random_predictions(500)
    found = of_class(predictions, 1)
    p, hit = predictions.probabilities[:, 1], predictions.labels == 1
    chosen = (p >= 0.3) & (p < 0.4)
    assert found.counts[3] == chosen.sum()
    assert found.predicted[3] == pytest.approx(p[chosen].mean())
    assert found.observed[3] == pytest.approx(hit[chosen].mean())


def test_chance_band_holds_95_percent():
    low, high = chance_band(np.array([0.3]), np.array([200.0]))
    drawn = np.random.default_rng(0).binomial(200, 0.3, 20_000) / 200
    assert 0.94 < np.mean((drawn >= low) & (drawn <= high)) < 0.97


def test_confusions():
    predictions = random_predictions(300)
    matrix = confusion_matrix(predictions)
    assert np.array_equal(matrix, sklearn_metrics.confusion_matrix(predictions.labels, predictions.chosen))
    first = frequent_confusions(matrix)[0]
    assert first.rows == (matrix - np.diag(np.diag(matrix))).max() == matrix[first.truth, first.prediction]
    assert frequent_confusions(np.diag([3, 4])) == []
