"""What a report says of the GPs, against the head and against dense algebra."""

import copy

import numpy as np
import pytest
import torch
from reported import dense_likeness

from svdkl.report.facts.gp_facts import (
    describe_gps,
    features_of,
    kernels,
    learned_function,
    neighbours,
    rows_by_class,
    strongest_output,
)


def test_gps_against_the_head(mixed, mixed_facts):
    head, h = mixed.model_.head, mixed_facts.features
    assert torch.allclose(h, mixed.model_.net(mixed.encoder_.transform(mixed_facts.rows)), atol=1e-5)
    found = describe_gps(head, h)
    weight = head.mixing.weight.detach().double().numpy()
    assert np.array_equal(found.mixing, weight)
    means = head.gps.marginals(h).mean.detach().double().numpy()
    influence = [means[:, j].std() * np.linalg.norm(weight[:, j] - weight[:, j].mean()) for j in range(4)]
    assert found.influence == pytest.approx(np.array(influence), rel=1e-4)
    assert found.order[0] == np.argmax(influence)
    kernel = head.gps.members()[0].gps.kernel
    assert found.deviations == pytest.approx(np.exp(kernel.log_variance.detach().numpy() / 2), rel=1e-5)
    assert found.lengthscales[:, 0] == pytest.approx(kernel.axes[0].lengthscale.detach().numpy(), rel=1e-5)
    positions = (head.gps.bounding(h)[:, 2].detach().numpy() + 1) / 2 * (8 - 3) + 1  # one spacing free at either end
    shares = [np.mean(np.floor(positions) == cell) for cell in range(7)]
    assert found.grid_use[2] == pytest.approx(shares)


def test_learned_function_against_the_head(mixed, mixed_facts):
    head, h = mixed.model_.head, mixed_facts.features
    line = learned_function(head, h, 1)
    point = torch.zeros(1, 4)
    point[0, 1] = float(line.feature[60])
    with torch.no_grad():
        marginals = head.gps.marginals(point)
    assert line.mean[60] == pytest.approx(float(marginals.mean[0, 1]), abs=1e-4)
    assert line.std[60] == pytest.approx(float(marginals.variance[0, 1]) ** 0.5, rel=1e-3)


def test_kernels_against_the_head(mixed, mixed_facts):
    labels = mixed_facts.predictions.labels
    rows = rows_by_class(labels, 3, 4)
    assert (np.diff(labels[rows]) >= 0).all()
    assert len(rows) == 150 == len(set(rows.tolist()))
    h = mixed_facts.features[rows]
    by_gp, found = kernels(mixed.model_.head, h, [0, 3])
    expected = [mixed.model_.head.gps.kernel_matrix(h, h, gp).detach().double().numpy() for gp in range(4)]
    assert np.allclose(by_gp[3], expected[3], atol=1e-6)
    weight = mixed.model_.head.mixing.weight.detach().double().numpy()
    summed = sum((weight[:, gp] ** 2).mean() * expected[gp] for gp in range(4))
    assert np.allclose(found, summed, atol=1e-5 * summed.max())


def test_nearest_rows_against_dense_algebra(mixed, mixed_facts, monkeypatch):
    head, asked = copy.deepcopy(mixed.model_.head), np.array([3, 50, 120])
    h = mixed_facts.features + torch.rand(200, 4, generator=torch.Generator().manual_seed(0))  # none is constant
    with torch.no_grad():
        head.mixing.weight.copy_(torch.tensor([[0.1, 2.0, 0.3, 1.0], [0.5, 0.1, 0.0, 3.0], [1.0, 0.2, 2.0, 0.0]]))
    found = neighbours(head, h, asked)
    likeness = dense_likeness(head, h)
    for row, places, told in zip(asked, found.places, found.likeness):
        others = np.delete(likeness[row], row)
        assert row not in places
        assert len(set(places.tolist())) == 5
        assert told == pytest.approx(np.sort(others)[::-1][:5], abs=1e-4)
        assert told == pytest.approx(likeness[row, places], abs=1e-4)
    # Rows are taken in blocks of what may be held at a time.
    monkeypatch.setattr("svdkl.report.facts.gp_facts.CELLS", 4 * 8 * 7)
    again = neighbours(head, h, asked)
    assert again.likeness == pytest.approx(found.likeness, abs=1e-6)
    assert neighbours(head, h[:3], np.array([1])).places.shape == (1, 2)


def test_a_gp_of_targets_drives_the_one_with_the_larger_weight(two_targets):
    head = copy.deepcopy(two_targets.model_.head)
    with torch.no_grad():
        head.mixing.weight.copy_(torch.tensor([[3.0, 1.0, -2.0, 1.0], [2.0, 4.0, 1.0, -5.0]]))
    h = torch.rand(50, 4) * 4
    found = describe_gps(head, h)
    for gp, (expected, sign) in enumerate([(0, 1), (1, 1), (0, -1), (1, -1)]):
        place, move = strongest_output(found, gp)
        if found.influence[gp] > 0:
            assert (place, np.sign(move)) == (expected, sign)
    assert (found.influence > 0).any()


def test_small_classes_leave_their_room_to_others():
    labels = np.array([0] * 2 + [1] * 300 + [2] * 300)
    assert np.bincount(labels[rows_by_class(labels, 3, 4)]).tolist() == [2, 74, 74]


def test_features_in_batches(two_targets, monkeypatch):
    monkeypatch.setattr("svdkl.report.facts.gp_facts.BATCH", 7)
    X = np.random.default_rng(0).normal(size=(20, 3))
    expected = two_targets.model_.net(two_targets.encoder_.transform(X))
    assert torch.allclose(features_of(two_targets.fitted_, two_targets.fitted_.read(X)), expected, atol=1e-5)
