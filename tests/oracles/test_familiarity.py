"""The GP on all features together, against the textbook's formula row by row, and what its score finds."""

import math
import pickle

import pytest
import torch
from tolerances import close
from torch import nn

from svdkl import SVDKL, GPHead
from svdkl.gp.familiarity import MOST_ROWS, NO_DIRECTION, Familiarity

NOISE, STEEPNESS, SMALLEST_SCALE = 0.1, 2.0, 0.3  # the defaults


def by_hand(rows: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """Compute k(x, x) - k(x, X) (K + noise I)^-1 k(X, x), one number at a time."""
    root_mean_square = lambda numbers: math.sqrt(sum(float(a) ** 2 for a in numbers) / len(numbers))  # noqa: E731
    sizes = [root_mean_square(column) for column in rows.T]
    usual = sorted(size for size in sizes if size > 0)
    sizes = [max(size, SMALLEST_SCALE * usual[(len(usual) - 1) // 2]) for size in sizes]

    def direction(row):
        z = [float(a) / s for a, s in zip(row, sizes, strict=True)]
        size = math.sqrt(root_mean_square(z) ** 2 + NO_DIRECTION)
        return [number / size for number in z]

    def apart(one, other):
        return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))

    known = [direction(row) for row in rows]
    pairs = sorted(apart(one, other) for one in known for other in known if one != other)
    median = pairs[(len(pairs) - 1) // 2]
    kernel = lambda one, other: math.exp(-STEEPNESS * apart(one, other) / median)  # noqa: E731
    covariance = torch.tensor([[kernel(a, b) + NOISE * (a is b) for b in known] for a in known], dtype=torch.float64)
    shares = []
    for row in h:
        cross = torch.tensor([kernel(direction(row), a) for a in known], dtype=torch.float64)
        shares.append(1 - cross @ torch.linalg.inv(covariance) @ cross)
    return torch.stack(shares)


def test_share_of_variance_left():
    scales = torch.tensor([0.2, 3.0, 1.5, 0.0, 20.0])  # the fourth was never on
    rows = (torch.randn(30, 5, dtype=torch.float64) + 0.7) * scales
    rows[20:] = rows[:10]
    h = (torch.randn(7, 5, dtype=torch.float64) + 0.7) * 4
    familiarity = Familiarity(5).double()
    familiarity.remember(rows)
    close(familiarity.strangeness(h), by_hand(rows, h))


def test_each_remembered_row_given_the_others():
    rows = (torch.randn(12, 3, dtype=torch.float64) + 0.4) * torch.tensor([0.7, 3.0, 1.3])
    familiarity = Familiarity(3).double()
    familiarity.remember(rows)
    known, rows = familiarity._known_now(), familiarity.rows
    kernel = torch.exp(-known.rate * torch.cdist(known.directions, known.directions).square() / 3)
    expected = []
    for i in range(12):
        others = [j for j in range(12) if j != i]
        covariance = kernel[others][:, others] + NOISE * torch.eye(11, dtype=torch.float64)
        expected.append(1 - kernel[i, others] @ torch.linalg.inv(covariance) @ kernel[others, i])
    close(familiarity.usual(), torch.stack(expected))
    close(Familiarity(3).usual(), torch.zeros(0))


def test_scores_of_rows_like_those_of_training():
    """Remembered rows, each left out, score as high as other rows of the same kind."""
    x = torch.randn(2000, 4)
    model = SVDKL(nn.Identity(), 4, 2, grid_size=16)
    model.set_ranges(x[:1000])
    assert model.head.usual_scores().shape == (0,)
    model.remember(x[:1000])
    usual, new = model.head.usual_scores(), model.uncertainty(x[1000:]).ood_score
    assert usual.shape == (1000,)
    for level in (0.1, 0.5, 0.9):
        assert abs((new < usual.quantile(level)).double().mean() - level) < 0.07
    assert (model.uncertainty(x[:1000]).ood_score < usual.quantile(0.5)).double().mean() > 0.55


def test_a_unit_that_was_never_on_is_strange_when_it_is():
    rows = torch.relu(torch.randn(200, 10) + 0.5)
    rows[:, 9] = 0
    familiarity = Familiarity(10)
    familiarity.remember(rows)
    fired = rows.clone()
    fired[:, 9] = 5
    usual, strange = familiarity.strangeness(rows), familiarity.strangeness(fired)
    assert strange.min() > usual.max()


def test_features_that_were_all_off_are_strange_when_they_are_on():
    familiarity = Familiarity(3)
    familiarity.remember(torch.zeros(10, 3))
    score = familiarity.strangeness(torch.tensor([[0.0, 0, 0], [5, 0, 0], [1e30, 1e30, 0]]))
    assert score[0] < 0.05
    assert bool((score[1:] > 0.5).all())


def test_rows_fade_into_the_origin():
    familiarity = Familiarity(3)
    familiarity.remember(torch.randn(100, 3))
    at, near = familiarity.strangeness(torch.zeros(1, 3)), familiarity.strangeness(1e-6 * torch.randn(5, 3))
    close(near, at.expand(5), "float32")


@pytest.mark.parametrize("rows", [torch.empty(0, 3), torch.ones(1, 3)])
def test_too_few_rows_say_nothing(rows):
    familiarity = Familiarity(3)
    familiarity.remember(rows)
    close(familiarity.strangeness(torch.randn(4, 3)), torch.zeros(4))


@pytest.mark.parametrize("rows", [torch.ones(20, 3), torch.tensor([[1.0], [-2.0]]).expand(2, 3).repeat(10, 1)])
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


@pytest.mark.parametrize("unit", [1.0, 100.0])
def test_features_that_never_came_together_are_found(unit):
    """Each of two features is often large, but never both at once."""
    size, which = torch.rand(600) * 2 + 1, torch.arange(600) % 2
    x = torch.stack([size * (which == 0), size * (which == 1)], 1) + 0.1 * torch.randn(600, 2)
    units = torch.tensor([unit, 1.0])
    x = x * units
    model = SVDKL(nn.Identity(), 2, 2, grid_size=32)
    model.set_ranges(x)
    new = torch.tensor([[2.0, 2.0], [0.2, 0.2]]) * units
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
    GPHead(3, 2, grid_size=8).load_state_dict(older)  # a state without a memory
    close(other.uncertainty(h).ood_score, expected)
    close(other.double().uncertainty(h.double()).ood_score, expected, "float32")
    close(pickle.loads(pickle.dumps(head)).uncertainty(h).ood_score, expected)
    assert len(pickle.dumps(head)) < 2 * len(pickle.dumps(GPHead(3, 2, grid_size=8)))  # the rows alone


def test_memory_stays_when_only_other_parts_are_loaded():
    model = SVDKL(nn.Linear(4, 3), 3, 2, grid_size=8)
    model.remember(torch.randn(50, 4))
    before, known = model.head.familiarity.rows.clone(), model.head.familiarity.rows
    model.load_state_dict({"net.bias": torch.ones(3)}, strict=False)
    close(model.head.familiarity.rows, before)
    model.load_state_dict(model.state_dict())
    assert model.head.familiarity.rows is known


def test_rows_are_remembered_in_the_precision_of_the_head():
    head = GPHead(3, 2, grid_size=8)
    head.familiarity.remember(torch.randn(50, 3))
    h = torch.randn(400, 3)
    half, double = head.uncertainty(h.bfloat16()), head.uncertainty(h.double())
    assert {part.dtype for part in (*half, *double)} == {torch.float32}
    assert len(half.ood_score.unique()) == len(h.bfloat16().unique(dim=0))


def test_uncertainty_with_a_memory_is_exported():
    class Score(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model.uncertainty(x).ood_score

    model = SVDKL(nn.Linear(4, 3), 3, 2, grid_size=8).eval()
    model.remember(torch.randn(50, 4))
    x = torch.randn(6, 4)
    program = torch.export.export(Score(model), (x,))
    close(program.module()(x), model.uncertainty(x).ood_score, "float32")
    model.uncertainty(x)  # the export has left nothing behind
