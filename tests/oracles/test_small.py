"""Cholesky factors of many small matrices, values and gradients, against torch's."""

import pytest
import torch
from tolerances import close

from svdkl.gp.linalg.small import ROUNDING, eager_cholesky, small_cholesky
from svdkl.shapes import Tensor


def covariances(size: int, count: int, rank: int | None = None, dtype: torch.dtype = torch.float64) -> Tensor:
    """Draw covariances (C, C, B), of full rank by default."""
    roots = torch.randn(count, size, rank or 2 * size, dtype=dtype)
    return (1.7 * roots @ roots.mT).movedim(0, -1)


def dense(many: Tensor) -> Tensor:
    """Factorise by torch, with columns first and matrices last."""
    return torch.linalg.cholesky(many.movedim(-1, 0)).mT.movedim(0, -1)


@pytest.mark.parametrize("cholesky", [small_cholesky, eager_cholesky])
@pytest.mark.parametrize(("size", "count"), [(1, 4), (3, 1), (7, 33), (12, 5), (4, 0)])
def test_columns_equal_the_dense_factors(cholesky, size, count):
    many = covariances(size, count)
    close(cholesky(many), dense(many))


def test_gradients():
    many = covariances(5, 6).requires_grad_()
    triangle = torch.ones(5, 5, dtype=torch.float64).triu()[:, :, None]
    cotangent = torch.randn(5, 5, 6, dtype=torch.float64) * triangle

    def symmetric(columns: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad((columns * cotangent).sum(), many)
        return gradient + gradient.transpose(0, 1)

    close(symmetric(small_cholesky(many)), symmetric(dense(many)))


@pytest.mark.parametrize("cholesky", [small_cholesky, eager_cholesky])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_matrices_without_full_rank(cholesky, dtype):
    """Some have half the rank, one is zero."""
    many = covariances(6, 20, rank=3, dtype=dtype)
    many[:, :, 7] = 0
    columns = cholesky(many)
    again = torch.einsum("kcb,kdb->cdb", columns, columns)
    # A variance that counts as rounding is dropped with its covariances, which bounds the error.
    assert (again - many).abs().max() < 2 * (ROUNDING * torch.finfo(dtype).eps) ** 0.5 * many.abs().max()
    assert not columns[:, :, 7].any()


def test_gradients_of_zero_variances_are_finite():
    variance = torch.tensor([[0.3, 0.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, 3, dtype=torch.float64)
    many = torch.einsum("cj,dj,bj->cdb", weight, weight, variance)
    small_cholesky(many).sum().backward()
    assert torch.isfinite(variance.grad).all()


def test_the_loop_leaves_its_input_alone_and_takes_any_layout():
    many = covariances(4, 9)
    kept = many.clone()
    turned = many.movedim(-1, 0).contiguous().movedim(0, -1)
    assert not turned.is_contiguous()
    close(small_cholesky(turned), eager_cholesky(many))
    assert torch.equal(many, kept)
    assert torch.equal(turned, kept)
