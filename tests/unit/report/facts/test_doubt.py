"""Doubt: what it is worth to leave rows out by it, and the rows to look at."""

import numpy as np
import pytest
from reported import CITY, made_up, mixed_table, random_predictions
from scipy import stats

from svdkl.report.facts.doubt import binned, cells, doubts, most_doubtful, rejection, surely_wrong


def test_rejection_and_bins_by_hand():
    predictions = random_predictions(200)
    wrong = ~predictions.correct
    curves = {curve.name: curve for curve in rejection(predictions)}
    assert set(curves) == {"total uncertainty", "epistemic uncertainty", "best possible order"}
    for name, doubt in (("total", predictions.doubt.total), ("epistemic", predictions.doubt.epistemic)):
        curve = curves[f"{name} uncertainty"]
        assert curve.x[0] == 0
        assert curve.y[0] == pytest.approx(1 - wrong.mean())
        kept = np.argsort(doubt)[: round(200 * (1 - curve.x[-1]))]
        assert len(kept) == 20
        assert curve.y[-1] == pytest.approx(1 - wrong[kept].mean())
    assert (np.diff(curves["best possible order"].y) >= 0).all()
    bins = binned(predictions, predictions.doubt.total)
    last = np.argsort(predictions.doubt.total)[-20:]
    assert bins.error[-1] == pytest.approx(wrong[last].mean())
    assert bins.expected[-1] == pytest.approx(1 - predictions.probabilities[last].max(1).mean())
    interval = stats.binomtest(int(wrong[last].sum()), 20).proportion_ci(method="wilson")
    assert (bins.low[-1], bins.high[-1]) == pytest.approx((interval.low, interval.high), abs=1e-3)


def test_doubts_of_one_order_are_one():
    p = np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]])
    assert set(doubts(made_up(p, [0, 0, 0], stats.entropy(p, axis=1) / 7))) == {"total"}
    assert set(doubts(made_up(p, [0, 0, 0], np.array([0.3, 0.2, 0.1])))) == {"total", "epistemic"}


def test_rows_to_look_at(mixed_facts):
    predictions = made_up([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.4, 0.6]], [1, 0, 0, 1])
    assert most_doubtful(predictions).tolist() == [1, 3, 2, 0]
    assert surely_wrong(predictions).tolist() == [0, 2]
    X, _ = mixed_table(200, 1)
    found = cells(mixed_facts.shown, np.array([7, 3]))
    assert [row[1] for row in found] == [X[CITY].iloc[7] or "–", X[CITY].iloc[3] or "–"]
