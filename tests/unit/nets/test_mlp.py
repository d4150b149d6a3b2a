"""Dropout by hashes: its law, its seeds, its gradient, and the module around it."""

import math
import os
import subprocess
import sys

import pytest
import torch
from refusals import refused
from tolerances import close
from torch import Tensor

from svdkl.nets.mlp import Dropout

CHANCES = (0.03, 0.25, 0.7)
each_chance = pytest.mark.parametrize("chance", CHANCES)


def kept(chance: float, *shape: int, seed: int = 3) -> Tensor:
    torch.manual_seed(seed)
    return (Dropout(chance)(torch.full(shape, 2.5)) != 0).double()


@each_chance
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_are_dropped_or_scaled(chance: float, dtype: torch.dtype) -> None:
    x = torch.randn(300, 200, dtype=dtype)
    y = Dropout(chance)(x)
    some = y != 0
    close(y[some], x[some] / (1 - chance), "float64" if dtype == torch.float64 else "float32")
    assert y.dtype == dtype


@each_chance
def test_chance_and_independence(chance: float) -> None:
    """Share, neighbours in both directions, and draws one after the other: all within five standard deviations."""
    n, deviation = 512 * 384, math.sqrt(chance * (1 - chance))
    torch.manual_seed(11)
    layer = Dropout(chance)
    first, second = ((layer(torch.ones(512, 384)) != 0).double() - (1 - chance) for _ in range(2))
    assert abs(first.mean()) < 5 * deviation / math.sqrt(n)
    pairs = [(first[:, 1:], first[:, :-1]), (first[1:], first[:-1]), (first, second)]
    pairs += [(first.flatten()[2**k :], first.flatten()[: -(2**k)]) for k in range(1, 16)]
    for a, b in pairs:
        assert abs((a * b).sum()) < 5 * deviation**2 * math.sqrt(a.numel())
    rows = first.sum(1) / (deviation * math.sqrt(384))  # sums of independent numbers vary as they should
    assert abs(rows.var() - 1) < 5 * math.sqrt(2 / 512)


def test_seed_decides() -> None:
    assert torch.equal(kept(0.25, 40, 30), kept(0.25, 40, 30))
    assert not torch.equal(kept(0.25, 40, 30), kept(0.25, 40, 30, seed=4))


def test_gradient_is_the_factor() -> None:
    x = torch.randn(50, 7, dtype=torch.float64, requires_grad=True)
    y = Dropout(0.25)(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    close(slope * x, y)


def test_other_layouts_and_sizes() -> None:
    for x in (
        torch.ones(6, 5).T,
        torch.ones(0, 4),
        torch.ones(3),
        torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last),
    ):
        y = Dropout(0.25)(x)
        assert y.shape == x.shape
        assert set(y.unique().tolist()) <= {0.0, torch.tensor(1 / 0.75).item()}


def test_evaluation_and_no_chance_change_nothing() -> None:
    x = torch.randn(4, 3)
    assert Dropout(0.25).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_everything_may_be_dropped() -> None:
    assert not Dropout(1.0)(torch.ones(5)).any()


@pytest.mark.parametrize("chance", [-0.1, 1.5, math.nan])
def test_no_chance_is_refused(chance: float) -> None:
    refused(lambda: Dropout(chance), "dropout from 0 to 1", f"{chance}")


def test_functional_gradients() -> None:
    x = torch.randn(50, 3)
    slope = torch.func.grad(lambda x: Dropout(0.25)(x).sum())(x)
    assert set(slope.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}


def test_other_types_are_torchs_own() -> None:
    y = Dropout(0.5)(torch.ones(1000, dtype=torch.bfloat16))
    assert set(y.tolist()) == {0.0, 2.0}


def test_compiled_while_it_trains() -> None:
    code = """
import torch
from svdkl import MLP
net = torch.compile(MLP(3, (64,), 2, dropout=0.5), fullgraph=True, backend="eager")
x = torch.randn(4, 3)
assert not torch.equal(net(x), net(x))
net.eval()
assert torch.equal(net(x), net(x))
"""
    environment = os.environ | {"SVDKL_UNCHECKED_SHAPES": "1"}  # checked shapes cannot be traced
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
