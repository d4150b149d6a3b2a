"""The compiled pass over the cells of an axis must equal the tensor operations."""

import pytest
import torch
from tolerances import close

from svdkl.gp.linalg.banded import dense_gram
from svdkl.gp.marginals import cell_roots, eager_cell_roots


def diagonals_of(size: int, gps: int = 3, rank: int = 9) -> torch.Tensor:
    return dense_gram(torch.randn(gps, size, rank, dtype=torch.float64), 4).requires_grad_()


def compare(diagonals: torch.Tensor) -> None:
    fused, eager = cell_roots(diagonals), eager_cell_roots(diagonals)
    assert "CPU" in fused.grad_fn.name()
    close(fused, eager)
    cotangent = torch.randn_like(eager)
    close(*(torch.autograd.grad(roots, diagonals, cotangent)[0] for roots in (fused, eager)))


@pytest.mark.parametrize("size", [4, 5, 6, 31])
def test_values_and_gradients(size):
    compare(diagonals_of(size))


@pytest.mark.parametrize("gps", [0, 1])
def test_few_gps(gps):
    compare(diagonals_of(7, gps))


def test_singular_blocks_have_lifted_pivots():
    """Exactly singular: in such numbers no rounding stands in for a pivot."""
    compare(dense_gram(torch.tensor([[[2.0], [4], [1], [8], [2], [0.5]]], dtype=torch.float64), 4).requires_grad_())
    main = torch.tensor([[1.0, 0, 1, 1, 0, 4, 1], [0.0, 1, 4, 0, 0, 1, 0]], dtype=torch.float64)
    compare(torch.nn.functional.pad(main[:, None], (0, 0, 0, 3)).requires_grad_())


def test_zeros_and_nan():
    compare(torch.zeros(1, 4, 6, dtype=torch.float64, requires_grad=True))
    diagonals = diagonals_of(9).detach()
    diagonals[1, 0, 4] = torch.nan
    fused, eager = cell_roots(diagonals), eager_cell_roots(diagonals)
    torch.testing.assert_close(fused, eager, equal_nan=True)
    assert fused.isnan().any()


def test_diagonals_that_are_not_side_by_side():
    column = torch.tensor([1.0, 0.5, 0.25, 0.125], dtype=torch.float64)
    compare(column[:, None].expand(3, 4, 6).requires_grad_())
    compare(diagonals_of(8).detach().permute(2, 1, 0).contiguous().permute(2, 1, 0).requires_grad_())


def test_single_precision_is_rounded_at_the_end_alone():
    diagonals = diagonals_of(12)
    single, double = cell_roots(diagonals, torch.float32), eager_cell_roots(diagonals)
    assert torch.equal(single, cell_roots(diagonals).float())
    cotangent = torch.randn_like(single)
    found = torch.autograd.grad(single, diagonals, cotangent)[0]
    assert found.dtype == torch.float64
    close(found, torch.autograd.grad(double, diagonals, cotangent.double())[0])


def test_twice_differentiated():
    diagonals = diagonals_of(5, 1)
    assert torch.autograd.gradcheck(cell_roots, diagonals)
    assert torch.autograd.gradgradcheck(cell_roots, diagonals)
    (gradient,) = torch.autograd.grad(cell_roots(diagonals, torch.float32).sum(), diagonals, create_graph=True)
    (again,) = torch.autograd.grad(gradient.sum(), diagonals)
    assert again.isfinite().all()
