"""Calibration errors bin by bin."""

import numpy as np
import pytest

from svdkl.metrics import adaptive_calibration_error, expected_calibration_error, reliability_curve

RANDOM = np.random.default_rng(1)
P = RANDOM.dirichlet([0.7, 1.3, 0.4], size=500)
Y = np.array([RANDOM.choice(3, p=p) for p in P])
W = RANDOM.exponential(size=500)
CONFIDENCE, CORRECT = P.max(1), P.argmax(1) == Y
WEIGHTS = pytest.mark.parametrize("weight", [None, W], ids=["unweighted", "weighted"])
ERRORS = pytest.mark.parametrize("error", [expected_calibration_error, adaptive_calibration_error])


@WEIGHTS
@pytest.mark.parametrize("num_bins", [1, 7, 15])
def test_bins_of_equal_width(num_bins, weight):
    w = np.ones(500) if weight is None else weight
    curve = reliability_curve(P, Y, num_bins, sample_weight=weight)
    total = 0.0
    for b in range(num_bins):
        inside = (b / num_bins <= CONFIDENCE) & ((b + 1) / num_bins > CONFIDENCE)
        assert np.isclose(curve.counts[b], w[inside].sum())
        if inside.any():
            confidence = np.average(CONFIDENCE[inside], weights=w[inside])
            accuracy = np.average(CORRECT[inside], weights=w[inside])
            assert np.isclose(curve.confidence[b], confidence)
            assert np.isclose(curve.accuracy[b], accuracy)
            total += w[inside].sum() / w.sum() * abs(accuracy - confidence)
        else:
            assert np.isnan(curve.confidence[b])
            assert np.isnan(curve.accuracy[b])
    assert np.isclose(expected_calibration_error(P, Y, num_bins, weight), total)


@pytest.mark.parametrize("num_bins", [1, 5, 20, 500])
def test_bins_of_equal_mass_that_divide_the_rows(num_bins):
    curve = reliability_curve(P, Y, num_bins, bins="mass")
    parts = np.split(np.argsort(CONFIDENCE), num_bins)
    assert np.allclose(curve.counts, 500 / num_bins)
    assert np.allclose(curve.confidence, [CONFIDENCE[part].mean() for part in parts])
    assert np.allclose(curve.accuracy, [CORRECT[part].mean() for part in parts])
    expected = np.mean([abs(CORRECT[part].mean() - CONFIDENCE[part].mean()) for part in parts])
    assert np.isclose(adaptive_calibration_error(P, Y, num_bins), expected)


@WEIGHTS
def test_bins_of_equal_mass_share_rows_and_ties(weight):
    """Row by row: each level of confidence is poured into the bins, its right and wrong rows alike."""
    p = np.round(P, 1)
    p[:, 2] = 1 - p[:, :2].sum(1)
    p = np.abs(p)
    confidence, correct = p.max(1), p.argmax(1) == Y
    w = np.ones(500) if weight is None else weight
    size = w.sum() / 7
    gaps, b, room = np.zeros(7), 0, size
    for level in np.unique(confidence):
        inside = confidence == level
        gap = level - np.average(correct[inside], weights=w[inside])
        left = w[inside].sum()
        while left > 1e-9:
            part = min(left, room)
            gaps[b] += part * gap
            left -= part
            room -= part
            if room < 1e-9 and b < 6:
                b, room = b + 1, size
    assert np.isclose(adaptive_calibration_error(p, Y, 7, weight), np.abs(gaps).sum() / w.sum())


def test_default_is_15_bins():
    assert len(reliability_curve(P, Y).counts) == 15
    assert expected_calibration_error(P, Y) == expected_calibration_error(P, Y, 15)
    assert adaptive_calibration_error(P, Y) == adaptive_calibration_error(P, Y, 15)


@ERRORS
def test_sure_and_right_is_calibrated_sure_and_wrong_is_off_by_one(error):
    assert error(np.eye(3)[Y], Y) == 0.0
    assert error(np.eye(3)[(Y + 1) % 3], Y) == 1.0


def test_fewer_rows_than_bins():
    p, y = [[0.9, 0.1], [0.3, 0.7]], [0, 0]
    assert np.isclose(expected_calibration_error(p, y), (0.1 + 0.7) / 2)
    # Bins of equal mass: the middle one of the 15 holds half a fifteenth of either row, 0.7 too sure and 0.1 not
    # sure enough.
    assert np.isclose(adaptive_calibration_error(p, y), (7 * 0.1 + 7 * 0.7 + (0.7 - 0.1) / 2) / 15)


def test_a_border_belongs_to_the_bin_above():
    assert np.array_equal(reliability_curve([[0.5, 0.5]], [0], 2).counts, [0, 1])
    assert np.array_equal(reliability_curve([[0.0, 1.0]], [0], 2).counts, [0, 1])


def test_bins_that_do_not_exist():
    with pytest.raises(ValueError, match="num_bins of at least 1, got 0"):
        expected_calibration_error(P, Y, 0)
