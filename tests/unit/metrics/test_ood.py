"""Out-of-distribution metrics against scikit-learn and a scan over thresholds."""

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from svdkl.metrics import auroc_ood, fpr95

RANDOM = np.random.default_rng(3)
CASES = [
    (RANDOM.normal(size=n_in).round(digits), RANDOM.normal(1.0, size=n_out).round(digits))
    for n_in, n_out in [(1, 1), (7, 5), (20, 30), (33, 100), (100, 40), (180, 9)]
    for digits in (0, 1, 9)
]


@pytest.mark.parametrize("case", CASES)
def test_auroc_is_that_of_scikit_learn(case):
    inside, outside = case
    labels = np.r_[np.zeros(len(inside)), np.ones(len(outside))]
    assert np.isclose(auroc_ood(inside, outside), roc_auc_score(labels, np.r_[inside, outside]))


@pytest.mark.parametrize("case", CASES)
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


def test_edges():
    assert fpr95([0.0, 1.0], [2.0, 3.0]) == 0.0
    assert fpr95([2.0, 3.0], [0.0, 1.0]) == 1.0
    assert fpr95([1.0, 1.0], [1.0, 1.0]) == 1.0  # one score for all rows tells nothing
    assert auroc_ood([1.0, 1.0], [1.0, 1.0]) == 0.5
    assert auroc_ood([-np.inf, 0.0], [1.0, np.inf]) == 1.0
    assert auroc_ood(torch.tensor([0.0, 1.0]), torch.tensor([2.0])) == 1.0
