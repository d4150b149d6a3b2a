"""Metrics of class probabilities and of scores against scikit-learn and against their definitions, written out."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score

from svdkl.metrics import accuracy, aurc, auroc, auroc_ood, brier_score, fpr95, negative_log_probability

RANDOM = np.random.default_rng(0)
P = RANDOM.dirichlet([0.7, 1.3, 0.4], size=500)
Y = np.array([RANDOM.choice(3, p=p) for p in P])
W = RANDOM.exponential(size=500)
P2 = np.round(RANDOM.dirichlet([1, 1], size=300), 1)  # many ties
Y2 = (RANDOM.random(300) < P2[:, 1]).astype(int)
W2 = RANDOM.exponential(size=300)
SCORES = [
    (RANDOM.normal(size=n_in).round(digits), RANDOM.normal(1.0, size=n_out).round(digits))
    for n_in, n_out in [(1, 1), (7, 5), (20, 30), (33, 100), (100, 40), (180, 9)]
    for digits in (0, 1, 9)
]
WEIGHTS = pytest.mark.parametrize("weight", [None, W], ids=["unweighted", "weighted"])
WEIGHTS2 = pytest.mark.parametrize("weight", [None, W2], ids=["unweighted", "weighted"])


@WEIGHTS
def test_accuracy_nlp_and_brier_score_are_those_of_scikit_learn(weight):
    assert np.isclose(accuracy(P, Y, weight), accuracy_score(Y, P.argmax(1), sample_weight=weight))
    assert np.isclose(negative_log_probability(P, Y, weight), log_loss(Y, P, sample_weight=weight))
    ours = brier_score(P, Y, weight)
    assert np.isclose(ours, brier_score_loss(Y, P, sample_weight=weight, scale_by_half=False))
    assert np.isclose(ours, np.average(((P - np.eye(3)[Y]) ** 2).sum(1), weights=weight))


@WEIGHTS2
def test_brier_score_of_two_classes_is_twice_that_of_one_column(weight):
    ours = brier_score(P2, Y2, weight)
    assert np.isclose(ours, 2 * brier_score_loss(Y2, P2[:, 1], sample_weight=weight, scale_by_half=True))


@WEIGHTS2
def test_auroc_of_two_classes_with_ties(weight):
    assert len(np.unique(P2[:, 1])) <= 11
    assert np.isclose(auroc(P2, Y2, weight), roc_auc_score(Y2, P2[:, 1], sample_weight=weight))
    share, total = 0.0, 0.0
    for i in np.flatnonzero(Y2 == 1):
        for j in np.flatnonzero(Y2 == 0):
            w = 1.0 if weight is None else weight[i] * weight[j]
            total += w
            share += w * ((P2[i, 1] > P2[j, 1]) + 0.5 * (P2[i, 1] == P2[j, 1]))
    assert np.isclose(auroc(P2, Y2, weight), share / total)


@WEIGHTS
def test_auroc_of_many_classes_is_the_mean_of_one_against_the_rest(weight):
    expected = roc_auc_score(Y, P, multi_class="ovr", average="macro", sample_weight=weight)
    assert np.isclose(auroc(P, Y, weight), expected)


def test_auroc_leaves_out_classes_that_never_or_always_occur():
    assert math.isnan(auroc(P2, np.zeros(300, int)))
    assert math.isnan(auroc(P2, np.ones(300, int)))
    assert math.isnan(auroc(P, np.full(500, 2)))
    assert math.isnan(auroc(P2, Y2, Y2))  # a class of which every row has weight 0 does not occur
    some = Y != 1
    expected = np.mean([roc_auc_score(Y[some] == c, P[some, c]) for c in (0, 2)])
    assert np.isclose(auroc(P[some], Y[some]), expected)
    assert np.isclose(auroc(P, Y, some), expected)


def selective_risks(p, y) -> list[float]:
    """Error rate of the 1, 2, ..., n most confident rows; a row's error is the mean one of its confidence."""
    confidence, error = p.max(1), (p.argmax(1) != y).astype(float)
    error = np.array([error[confidence == c].mean() for c in confidence])[np.argsort(-confidence)]
    risks, total = [], 0.0
    for k, e in enumerate(error, start=1):
        total += e
        risks.append(total / k)
    return risks


@pytest.mark.parametrize(("p", "y"), [(P, Y), (P2, Y2)], ids=["distinct", "ties"])
def test_aurc_is_the_limit_of_the_mean_selective_risk(p, y):
    """Every row counted many times: the sum over steps of coverage becomes the integral."""
    p, y = p[:40], y[:40]
    for times, tolerance in [(1, 0.1), (10, 2e-2), (300, 1e-3)]:
        mean = np.mean(selective_risks(p.repeat(times, 0), y.repeat(times)))
        assert abs(aurc(p, y) - mean) < tolerance
    assert abs(aurc(P, Y) - np.mean(selective_risks(P, Y))) < 0.01


def test_aurc_by_hand():
    p = np.array([[0.9, 0.1], [0.8, 0.2]])
    # Wrong, then right: the risk is 1 up to one half, then 1/(2c).
    assert np.isclose(aurc(p, [1, 0]), 0.5 + 0.5 * math.log(2))
    assert np.isclose(aurc(p, [0, 1]), 0.5 - 0.5 * math.log(2))
    assert np.isclose(aurc(p[[0, 0]], [0, 1]), 0.5)  # equal confidence: nothing to choose by
    assert np.isclose(aurc(p, [1, 0], [1, 3]), 0.25 + 0.25 * math.log(4))


def test_a_sure_mistake_costs_much_but_not_infinity():
    assert 100 < negative_log_probability(np.array([[1.0, 0.0]]), np.array([1])) < 1000
    assert str(negative_log_probability([[1.0, 0.0]], [0])) == "0.0"


def test_equal_probabilities_choose_the_first_class():
    assert accuracy([[0.5, 0.5], [0.5, 0.5]], [0, 1]) == 0.5


@pytest.mark.parametrize("metric", [accuracy, negative_log_probability, brier_score, auroc, aurc])
def test_tensors_lists_single_precision_and_boolean_labels_will_do(metric):
    expected = metric(P2, Y2)
    assert isinstance(expected, float)
    assert metric(torch.tensor(P2), torch.tensor(Y2)) == expected
    assert metric(P2.tolist(), Y2.tolist()) == expected
    assert metric(P2, Y2.astype(bool)) == expected
    assert metric(P2, Y2.astype(np.uint8)) == expected
    assert np.isclose(metric(torch.tensor(P2).float(), torch.tensor(Y2).int()), expected, atol=1e-6)


def test_inputs_stay_as_they_are():
    p, y = P.copy(), Y.copy()
    for metric in (accuracy, negative_log_probability, brier_score, auroc, aurc):
        metric(p, y)
    assert np.array_equal(p, P)
    assert np.array_equal(y, Y)


@pytest.mark.parametrize("case", SCORES)
def test_auroc_is_that_of_scikit_learn(case):
    inside, outside = case
    labels = np.r_[np.zeros(len(inside)), np.ones(len(outside))]
    assert np.isclose(auroc_ood(inside, outside), roc_auc_score(labels, np.r_[inside, outside]))


@pytest.mark.parametrize("case", SCORES)
def test_fpr95_by_a_scan_over_thresholds(case):
    inside, outside = case
    rates = [
        np.mean([score <= threshold for score in outside])
        for threshold in np.r_[inside, outside]
        if 100 * sum(score <= threshold for score in inside) >= 95 * len(inside)
    ]
    assert np.isclose(fpr95(inside, outside), min(rates))


def test_fpr95_leaves_exactly_one_row_in_twenty_out():
    """Rounding of 0.95 n must not let another row in."""
    for n in range(20, 4001, 20):
        assert fpr95(np.arange(n), np.arange(n)) == 0.95


def test_edges_of_scores_of_rows_from_elsewhere():
    assert fpr95([0.0, 1.0], [2.0, 3.0]) == 0.0
    assert fpr95([2.0, 3.0], [0.0, 1.0]) == 1.0
    assert fpr95([1.0, 1.0], [1.0, 1.0]) == 1.0  # one score for all rows tells nothing
    assert auroc_ood([1.0, 1.0], [1.0, 1.0]) == 0.5
    assert auroc_ood([-np.inf, 0.0], [1.0, np.inf]) == 1.0
    assert auroc_ood(torch.tensor([0.0, 1.0]), torch.tensor([2.0])) == 1.0
