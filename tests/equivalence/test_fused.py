"""The fused CPU kernel against the eager path: the same contract for values, gradients, precisions and edges."""

import threading

import pytest
import torch
from tolerances import close

from svdkl.interpolation_cpu import POINTS_PER_THREAD, FusedMarginals, eager_marginals

KIND = {torch.float64: "float64", torch.float32: "float32"}


def make(rows: int, gps: int = 3, cells: int = 6, dtype: torch.dtype = torch.float64):
    table = torch.randn(5, 4, gps, cells, dtype=dtype, requires_grad=True)
    position = (torch.rand(rows, gps, dtype=dtype) * (cells + 2) - 1).requires_grad_()  # some beyond either end
    return table, position


def compare(table: torch.Tensor, position: torch.Tensor) -> None:
    kind = KIND[table.dtype]
    actual, expected = FusedMarginals.apply(table, position), eager_marginals(table, position)
    cotangents = [torch.randn_like(x) for x in expected]
    for one, other in zip(actual, expected, strict=True):
        close(one, other, kind)
    gradients = [
        torch.autograd.grad(sum((x * c).sum() for x, c in zip(result, cotangents, strict=True)), [table, position])
        for result in (actual, expected)
    ]
    for one, other in zip(*gradients, strict=True):
        close(one, other, kind)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("rows", [0, 1, 50])
def test_values_and_gradients(dtype, rows):
    compare(*make(rows, dtype=dtype))


def test_edges_and_grid_points():
    table, _ = make(0)
    position = torch.tensor([-1.0, 0.0, 1e-12, 1.0, 3.0, 5.0, 6.0, 6.5], dtype=torch.float64)
    compare(table, position[:, None].repeat(1, 3).requires_grad_())


def test_non_contiguous_input():
    table, position = make(40)
    compare(table.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_(), position)
    compare(table, position.detach().T.contiguous().T.requires_grad_())


def test_a_nan_stays_one_and_harms_no_other_row():
    table, position = make(5)
    with torch.no_grad():
        position[2, 1] = float("nan")
    mean, variance = FusedMarginals.apply(table, position)
    assert bool(mean[2, 1].isnan())
    assert bool(variance[2, 1].isnan())
    assert int(mean.isnan().sum()) == 1


def test_second_derivatives_are_those_of_the_eager_path():
    table, position = make(4)
    hessians = []
    for path in (FusedMarginals.apply, eager_marginals):
        mean, variance = path(table, position)
        (gradient,) = torch.autograd.grad((mean * variance).sum(), position, create_graph=True)
        hessians.append(torch.autograd.grad(gradient.sin().sum(), [table, position]))
    for one, other in zip(*hessians, strict=True):
        close(one, other)


def test_several_threads_give_the_same(monkeypatch):
    table, position = make(POINTS_PER_THREAD)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    compare(table, position)


def test_concurrent_calls():
    """Prediction may be called from many threads at once."""
    table, position = make(2000)
    expected = FusedMarginals.apply(table, position)[1].detach()
    results: list[torch.Tensor] = []
    threads = [
        threading.Thread(
            target=lambda: results.extend(FusedMarginals.apply(table, position)[1].detach() for _ in range(20))
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 160
    assert all(torch.equal(result, expected) for result in results)
