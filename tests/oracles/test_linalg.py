"""Structured linear algebra against the matrices written out."""

import dense
import pytest
import torch
from tolerances import close

from oracles.twins import same
from svdkl.linalg import banded, circulant, kronecker, toeplitz, triangular
from svdkl.linalg.cholesky import jittered_cholesky, unrolled_cholesky


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def with_eigenvalues(*values: float) -> torch.Tensor:
    basis = torch.linalg.qr(torch.randn(len(values), len(values), dtype=torch.float64)).Q
    return basis @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ basis.mT


# ---------------------------------------------------------------------------------------------------------- Cholesky


def test_jitter_is_relative_to_each_matrix():
    x, scales = randn(3, 5, 5), torch.tensor([1e-4, 2.0, 3e5])[:, None, None]
    matrix = scales * x @ x.mT
    eye = torch.eye(5, dtype=torch.float64)
    expected = torch.linalg.cholesky(matrix + 0.03 * matrix.diagonal(dim1=1, dim2=2).sum(1)[:, None, None] / 5 * eye)
    factor, used = jittered_cholesky(matrix, jitter=0.03)
    assert used == 0.03
    same(factor / scales.sqrt(), expected / scales.sqrt(), [x])


def test_jitter_grows_only_as_far_as_it_must_and_warns():
    matrix = with_eigenvalues(-3e-5, 0.5, 2.0, 4.0)
    scale = matrix.trace() / 4
    with pytest.warns(UserWarning, match="1e-06 to 1e-04"):
        factor, used = jittered_cholesky(matrix, jitter=1e-6)
    assert used == pytest.approx(1e-4)
    close(factor @ factor.mT, matrix + used * scale * torch.eye(4, dtype=torch.float64))


def test_jitter_may_start_at_zero():
    matrix = with_eigenvalues(-1e-15, 0.5, 2.0, 4.0)
    with pytest.warns(UserWarning, match="grew from 0"):
        factor, used = jittered_cholesky(matrix, jitter=0.0)
    assert 0 < used < 1e-11
    close(factor @ factor.mT, matrix)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize(("i", "k"), [(2, 1), (0, 0), (2, 2)])
def test_cholesky_refuses_what_is_not_finite(bad, i, k):
    matrix = with_eigenvalues(0.5, 2.0, 4.0)
    matrix[i, k] = matrix[k, i] = bad
    with pytest.raises(ValueError, match="finite"):
        jittered_cholesky(matrix)


def test_cholesky_refuses_an_indefinite_matrix_in_a_batch():
    batch = torch.stack([with_eigenvalues(0.5, 2.0, 4.0), with_eigenvalues(-0.5, 2.0, 4.0)])
    with pytest.raises(ValueError, match="positive semi-definite"):
        jittered_cholesky(batch)


@pytest.mark.parametrize("block", [2, 3, 512])
def test_strictly_lower_matmul(block, monkeypatch):
    monkeypatch.setattr(triangular, "BLOCK", block)
    matrix, x = randn(2, 7, 7), randn(2, 7, 3)
    same(triangular.strictly_lower_matmul(matrix, x), matrix.tril(-1) @ x, [matrix, x])


def unrolled(matrix: torch.Tensor) -> torch.Tensor:
    """The factor in matrix form."""
    n = matrix.shape[-1]
    factor = unrolled_cholesky([[matrix[..., i, k] for k in range(i + 1)] for i in range(n)])
    zero = torch.zeros_like(matrix[..., 0, 0])
    return torch.stack([torch.stack(row + [zero] * (n - len(row)), -1) for row in factor], -2)


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_unrolled_cholesky(n):
    x = randn(3, 2, n, n)
    matrix = x @ x.mT + 0.1 * torch.eye(n, dtype=torch.float64)
    same(unrolled(matrix), torch.linalg.cholesky(matrix), [x])


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_unrolled_cholesky_of_singular_blocks(rank):
    """Still a root of the block, with finite gradients."""
    x = randn(6, 4, rank)
    matrix = x @ x.mT
    factor = unrolled(matrix)
    close(factor @ factor.mT, matrix)
    (grad,) = torch.autograd.grad(factor, matrix, torch.randn_like(factor))
    assert grad.isfinite().all()


# --------------------------------------------------------------------------------------------------------- Kronecker

SHAPES = [[(4, 4)], [(4, 4), (3, 3)], [(2, 2), (4, 4), (3, 3)], [(3, 2), (2, 5), (4, 3)]]


def factors_of(shapes, *batch):
    return [randn(*batch, *shape) for shape in shapes]


@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
@pytest.mark.parametrize("shapes", SHAPES)
def test_kron_matvec(shapes, leading):
    factors = factors_of(shapes, 2)
    x = randn(*leading, 2, *(columns for _, columns in shapes))
    product = dense.krons(factors) @ x.reshape(*leading, 2, -1, 1)
    expected = product.reshape(*leading, 2, *(rows for rows, _ in shapes))
    same(kronecker.kron_matvec(factors, x), expected, [x, *factors])


@pytest.mark.parametrize("shapes", SHAPES)
def test_kron_matvec_without_batch(shapes):
    factors, x = factors_of(shapes), randn(3, *(columns for _, columns in shapes))
    expected = (x.flatten(1) @ dense.kron(*factors).mT).reshape(3, *(rows for rows, _ in shapes))
    same(kronecker.kron_matvec(factors, x), expected, [x, *factors])


@pytest.mark.parametrize("shapes", SHAPES)
def test_kron_matmul(shapes):
    factors = factors_of(shapes, 2)
    product = dense.krons(factors)
    x = randn(2, product.shape[-1], 3)
    same(kronecker.kron_matmul(factors, x), product @ x, [x, *factors])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_along_axis(axis):
    """A factor along one axis and identities along the others; dimensions before the batch are columns."""
    sizes = (2, 4, 3)
    factor, x = randn(2, sizes[axis], sizes[axis]), randn(5, 2, *sizes)
    eyes = [torch.eye(size, dtype=torch.float64).expand(2, size, size) for size in sizes]
    whole = dense.krons([factor if d == axis else eye for d, eye in enumerate(eyes)])
    expected = (whole @ x.flatten(2).unsqueeze(-1)).reshape(x.shape)
    same(kronecker.along_axis(lambda columns: factor @ columns, x, axis, 3), expected, [x, factor])


@pytest.mark.parametrize("shapes", SHAPES[:3])
def test_kron_diagonal_trace_and_log_det(shapes):
    roots = factors_of(shapes, 2)
    factors = [root @ root.mT + torch.eye(root.shape[-1]) for root in roots]
    whole = dense.krons(factors)
    diagonal = kronecker.kron_diagonal([factor.diagonal(dim1=1, dim2=2) for factor in factors])
    same(diagonal, whole.diagonal(dim1=1, dim2=2), roots)
    trace = kronecker.kron_trace([factor.diagonal(dim1=1, dim2=2).sum(1) for factor in factors])
    same(trace, torch.stack([one.trace() for one in whole]), roots)
    log_det = kronecker.kron_log_det([torch.logdet(factor) for factor in factors], [rows for rows, _ in shapes])
    same(log_det, torch.logdet(whole), roots)


@pytest.mark.parametrize("shapes", SHAPES[:3])
def test_kron_kron_trace_of_solve(shapes):
    raw = [factors_of(shapes, 2), factors_of(shapes, 2)]
    roots, factors = ([x.tril(-1) + torch.diag_embed(1 + x.diagonal(0, 1, 2) ** 2) for x in xs] for xs in raw)
    K, S = (dense.krons([x @ x.mT for x in xs]) for xs in (roots, factors))
    expected = torch.stack([one.trace() for one in torch.linalg.inv(K) @ S])
    same(kronecker.kron_trace_of_solve(roots, factors), expected, raw[0] + raw[1])


@pytest.mark.parametrize("shapes", SHAPES[:3])
def test_kron_sample(shapes):
    factors, mean = factors_of(shapes, 2), randn(2, *(rows for rows, _ in shapes))
    draws = kronecker.kron_sample(mean, factors, 3, torch.Generator().manual_seed(7))
    noise = torch.randn(3, *mean.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    coloured = (dense.krons(factors) @ noise.flatten(2).unsqueeze(-1)).reshape(noise.shape)
    same(draws, mean + coloured, [mean, *factors])


# -------------------------------------------------------------------------------------------- Toeplitz and circulant


@pytest.mark.parametrize("m", [1, 2, 5, 8])
def test_toeplitz(m):
    column, x = randn(2, m), randn(2, m, 3)
    matrix = dense.toeplitz(column)
    same(toeplitz.toeplitz_dense(column), matrix, [column])
    same(toeplitz.toeplitz_matmul(column, x), matrix @ x, [column, x])


def ring_column(m):
    """Free numbers and the first column of a positive definite symmetric circulant matrix made of them."""
    half = randn(2, m // 2 + 1)
    column = torch.stack([half[:, min(k, m - k)] for k in range(m)], -1)
    bump = torch.nn.functional.pad(0.3 + column.abs().sum(-1, keepdim=True), (0, m - 1))
    return half, column + bump


@pytest.mark.parametrize("m", [4, 5, 8, 9])
def test_circulant_spectrum(m):
    half, column = ring_column(m)
    spectrum = circulant.circulant_spectrum(column)
    matrix = dense.circulant(column)
    whole = spectrum[:, [min(k, m - k) for k in range(m)]]
    close(whole.sort().values, torch.linalg.eigvalsh(matrix))
    counts = circulant.mirror_counts(m, spectrum)
    for power in (1, 2):
        trace = torch.stack([one.trace() for one in torch.linalg.matrix_power(matrix, power)])
        same((counts * spectrum**power).sum(-1), trace, [half])
    same(circulant.circulant_column(spectrum, m), column, [half])
    same(circulant.circulant_log_det(spectrum, m), torch.logdet(matrix), [half])


@pytest.mark.parametrize("m", [4, 5, 8, 9])
def test_circulant_products(m):
    half, column = ring_column(m)
    spectrum, x = circulant.circulant_spectrum(column), randn(2, m, 3)
    matrix = dense.circulant(column)
    root = dense.symmetric_root(matrix)
    same(circulant.circulant_matmul(spectrum, x), matrix @ x, [half, x])
    same(circulant.circulant_solve(spectrum, x), torch.linalg.solve(matrix, x), [half, x])
    same(circulant.circulant_matmul(circulant.circulant_sqrt(spectrum), x), root @ x, [half, x])


# ------------------------------------------------------------------------------------------------------------ banded


def bands_of(width, m):
    inside = torch.arange(m) + torch.arange(width)[:, None] < m
    return randn(2, width, m), inside


@pytest.mark.parametrize(("width", "m"), [(1, 5), (2, 5), (4, 7), (5, 5)])
def test_banded(width, m):
    free, inside = bands_of(width, m)
    bands, x = free * inside, randn(2, m, 3)
    matrix = dense.banded(bands)
    same(banded.banded_dense(bands), matrix, [free])
    same(banded.banded_matmul(bands, x), matrix @ x, [free, x])


@pytest.mark.parametrize("num_diagonals", [1, 4, 5])
@pytest.mark.parametrize(("width", "m"), [(1, 5), (2, 5), (4, 7), (5, 5)])
def test_grams(width, m, num_diagonals):
    """Also more diagonals than the band has, which are zero."""
    free, inside = bands_of(width, m)
    bands = free * inside
    matrix = dense.banded(bands)
    S = matrix @ matrix.mT
    diagonals = [S.diagonal(k, 1, 2) for k in range(num_diagonals)]
    expected = torch.stack([torch.nn.functional.pad(x, (0, m - x.shape[-1])) for x in diagonals], 1)
    same(banded.banded_gram(bands, num_diagonals), expected, [free])
    same(banded.dense_gram(matrix, num_diagonals), expected, [free])


def test_dense_gram_twice_differentiated():
    x = randn(2, 5, 2)
    assert torch.autograd.gradcheck(lambda x: banded.dense_gram(x, 4), x)
    assert torch.autograd.gradgradcheck(lambda x: banded.dense_gram(x, 4), x)


@pytest.mark.parametrize("k", [0, 1, 3])
def test_shift_down(k):
    x = randn(2, 5)
    expected = torch.stack([x[:, i - k] if i >= k else torch.zeros(2) for i in range(5)], -1)
    same(banded.shift_down(x, k), expected, [x])
