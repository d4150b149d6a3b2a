"""The GP on all features together, against the textbook's formula row by row, and what its score is good for."""

import math
import pickle

import pytest
import torch
from tolerances import close
from torch import nn

from svdkl import SVDKL, GPHead
from svdkl.familiarity import MOST_ROWS, NOISE, STEEPNESS, Familiarity


def by_hand(rows: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """k(x, x) - k(x, X) (K + noise I)^-1 k(X, x), one number at a time."""
    count = len(rows)
    sizes = [math.sqrt(sum(float(a) ** 2 for a in column) / count) for column in rows.T]

    def direction(row):
        z = [float(a) / s for a, s in zip(row, sizes, strict=True) if s > 0]
        size = math.sqrt(sum(number**2 for number in z))
        return [number / size for number in z]

    def apart(one, other):
        return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))

    known = [direction(row) for row in rows]
    pairs = sorted(apart(one, other) for one in known for other in known if one is not other)
    median = pairs[(len(pairs) - 1) // 2]
    kernel = lambda one, other: math.exp(-STEEPNESS * apart(one, other) / median)  # noqa: E731
    covariance = torch.tensor([[kernel(a, b) + NOISE * (a is b) for b in known] for a in known], dtype=torch.float64)
    shares = []
    for row in h:
        cross = torch.tensor([kernel(direction(row), a) for a in known], dtype=torch.float64)
        shares.append(1 - cross @ torch.linalg.inv(covariance) @ cross)
    return torch.stack(shares)


def test_variance_that_is_left():
    scales = torch.tensor([0.2, 3.0, 1.5, 0.0, 20.0])  # the fourth was never on
    rows = (torch.randn(30, 5, dtype=torch.float64) + 0.7) * scales
    h = (torch.randn(7, 5, dtype=torch.float64) + 0.7) * 4
    familiarity = Familiarity(5).double()
    familiarity.remember(rows)
    close(familiarity.strangeness(h), by_hand(rows, h))


@pytest.mark.parametrize("rows", [torch.empty(0, 3), torch.ones(1, 3)])
def test_too_few_rows_say_nothing(rows):
    familiarity = Familiarity(3)
    familiarity.remember(rows)
    close(familiarity.strangeness(torch.randn(4, 3)), torch.zeros(4))


@pytest.mark.parametrize("rows", [torch.ones(20, 3), torch.randn(20, 1).expand(20, 3)])
def test_rows_that_are_all_alike_pin_themselves_down(rows):
    familiarity = Familiarity(3)
    familiarity.remember(rows)
    assert familiarity.strangeness(rows).max().item() < 2 * NOISE / 5
    assert bool(torch.isfinite(familiarity.strangeness(torch.randn(5, 3))).all())


def test_features_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="finite features"):
        Familiarity(2).remember(torch.tensor([[1.0, float("nan")]]))


def test_a_share_of_the_memory_goes_to_new_rows():
    familiarity = Familiarity(2)
    familiarity.remember(torch.zeros(3000, 2))
    assert len(familiarity.rows) == MOST_ROWS
    familiarity.remember(torch.ones(3000, 2), share=0.25)
    assert len(familiarity.rows) == MOST_ROWS
    assert int(familiarity.rows[:, 0].sum()) == MOST_ROWS // 4
    familiarity.remember(2 * torch.ones(10, 2))
    assert familiarity.rows.tolist() == [[2.0, 2.0]] * 10


def test_features_that_never_came_together_are_found():
    """Two features that are both usual, of which only one was ever large at a time."""
    size, which = torch.rand(600) * 2 + 1, torch.arange(600) % 2
    x = torch.stack([size * (which == 0), size * (which == 1)], 1) + 0.1 * torch.randn(600, 2)
    model = SVDKL(nn.Identity(), 2, 2, grid_size=32)
    model.set_ranges(x)
    new = torch.tensor([[2.0, 2.0], [0.2, 0.2]])
    before = model.uncertainty(torch.cat([x, new])).ood_score
    model.remember(x)
    after = model.uncertainty(torch.cat([x, new])).ood_score
    assert after.shape == (602,)
    assert bool(((after >= before) & (after <= 1)).all())
    assert after[600] > after[:600].quantile(0.99)
    assert before[600] < before[:600].quantile(0.99)


def test_memory_is_saved_with_a_model():
    head = GPHead(3, 2, grid_size=8)
    assert head.state_dict()["familiarity.rows"].shape == (0, 3)
    head.familiarity.remember(torch.randn(50, 3))
    h = torch.randn(6, 3)
    expected = head.uncertainty(h).ood_score
    other = GPHead(3, 2, grid_size=8)
    other.load_state_dict(head.state_dict())
    older = {name: tensor for name, tensor in head.state_dict().items() if name != "familiarity.rows"}
    GPHead(3, 2, grid_size=8).load_state_dict(older)  # from before there was a memory
    close(other.uncertainty(h).ood_score, expected)
    close(other.double().uncertainty(h.double()).ood_score, expected, "float32")
    close(pickle.loads(pickle.dumps(head)).uncertainty(h).ood_score, expected)
    assert len(pickle.dumps(head)) < 2 * len(pickle.dumps(GPHead(3, 2, grid_size=8)))  # the rows alone
