"""Metrics against scikit-learn and against their definition."""

import numpy as np
from sklearn.metrics import accuracy_score, log_loss

from svdkl.metrics import accuracy, expected_calibration_error, negative_log_probability

RANDOM = np.random.default_rng(0)
P = RANDOM.dirichlet([0.7, 1.3, 0.4], size=500)
Y = np.array([RANDOM.choice(3, p=p) for p in P])


def test_accuracy_and_nlp_are_those_of_scikit_learn():
    assert np.isclose(accuracy(P, Y), accuracy_score(Y, P.argmax(1)))
    assert np.isclose(negative_log_probability(P, Y), log_loss(Y, P))


def test_a_sure_mistake_costs_much_but_not_infinity():
    assert 100 < negative_log_probability(np.array([[1.0, 0.0]]), np.array([1])) < 1000


def test_calibration_error_bin_by_bin():
    total = 0.0
    confidence, correct = P.max(1), P.argmax(1) == Y
    for low in np.arange(15) / 15:
        inside = (confidence >= low) & (confidence < low + 1 / 15)
        if inside.any():
            total += inside.mean() * abs(correct[inside].mean() - confidence[inside].mean())
    assert np.isclose(expected_calibration_error(P, Y), total)
    assert np.isclose(expected_calibration_error(np.eye(3)[Y], Y), 0.0)
