"""Structured linear algebra against the matrices written out."""

import dense
import pytest
import torch
from tolerances import close

from oracles.twins import same
from svdkl.gp.fast import compiling, toeplitz_loops
from svdkl.gp.linalg import banded, circulant, kronecker, small, toeplitz
from svdkl.gp.linalg.small import unrolled_cholesky


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


# ---------------------------------------------------------------------------------------------------------- Cholesky


@pytest.mark.parametrize("block", [2, 3, 512])
def test_strictly_lower_matmul(block, monkeypatch):
    monkeypatch.setattr(small, "BLOCK", block)
    matrix, x = randn(2, 7, 7), randn(2, 7, 3)
    same(small.strictly_lower_matmul(matrix, x), matrix.tril(-1) @ x, [matrix, x])


def unrolled(matrix: torch.Tensor) -> torch.Tensor:
    """Return the factor in matrix form."""
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
    """The factor is still a root of the block, with finite gradients."""
    x = randn(6, 4, rank)
    matrix = x @ x.mT
    factor = unrolled(matrix)
    close(factor @ factor.mT, matrix)
    (grad,) = torch.autograd.grad(factor, matrix, torch.randn_like(factor))
    assert grad.isfinite().all()


# --------------------------------------------------------------------------------------------------------- Kronecker

SIZES = [(4,), (4, 3), (2, 4, 3)]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_along_axis(axis):
    """The whole matrix has identities along the other axes; dimensions before J are columns."""
    sizes = (2, 4, 3)
    factor, x = randn(2, sizes[axis], sizes[axis]), randn(5, 2, *sizes)
    eyes = [torch.eye(size, dtype=torch.float64).expand(2, size, size) for size in sizes]
    whole = dense.krons([factor if d == axis else eye for d, eye in enumerate(eyes)])
    expected = (whole @ x.flatten(2).unsqueeze(-1)).reshape(x.shape)
    same(kronecker.along_axis(lambda columns: factor @ columns, x, axis, 3), expected, [x, factor])


@pytest.mark.parametrize("sizes", SIZES)
def test_kron_trace_and_log_det(sizes):
    roots = [randn(2, size, size) for size in sizes]
    factors = [root @ root.mT + torch.eye(root.shape[-1]) for root in roots]
    whole = dense.krons(factors)
    trace = kronecker.kron_trace([factor.diagonal(dim1=1, dim2=2).sum(1) for factor in factors])
    same(trace, torch.stack([one.trace() for one in whole]), roots)
    log_det = kronecker.kron_log_det([torch.logdet(factor) for factor in factors], sizes)
    same(log_det, torch.logdet(whole), roots)


# -------------------------------------------------------------------------------------------- Toeplitz and circulant


@pytest.mark.parametrize("m", [1, 2, 5, 8])
def test_toeplitz(m):
    column, x = randn(2, m), randn(2, m, 3)
    matrix = dense.toeplitz(column)
    same(toeplitz.toeplitz_dense(column), matrix, [column])
    same(toeplitz.toeplitz_matmul(column, x), matrix @ x, [column, x])


def spectrum_column(*values: float) -> torch.Tensor:
    """Return the first column of the symmetric circulant, and so Toeplitz, matrix with these eigenvalues."""
    assert values[1:] == values[:0:-1]
    return torch.fft.ifft(torch.tensor(values, dtype=torch.float64)).real[None]


def definite_column(m: int, gps: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Return free numbers, and first columns of positive definite Toeplitz matrices, sums of cosines, made of them."""
    free = torch.rand(gps, 2, 4, dtype=torch.float64, requires_grad=True)
    cosines = torch.cos(3 * free[:, 0, :, None] * torch.arange(m))
    column = ((0.2 + free[:, 1, :, None]) * cosines).sum(1)
    return free, column + torch.nn.functional.pad(torch.full((gps, 1), 0.3), (0, m - 1))


@pytest.fixture(params=["loops", "tensors"])
def both_ways(request, monkeypatch):
    """Factorise by compiled loops, then by tensor operations, as on other devices."""
    if request.param == "tensors":
        monkeypatch.setattr(toeplitz_loops.CPUToeplitzCholesky, "apply", toeplitz.dense_factors)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("m", [1, 2, 3, 8, 21])
def test_toeplitz_cholesky(m):
    free, column = definite_column(m)
    scales = torch.tensor([1e-4, 2.0, 3e5], dtype=torch.float64)[:, None]
    eye = torch.eye(m, dtype=torch.float64)
    expected = torch.linalg.cholesky(dense.toeplitz(column) + 0.03 * column[:, 0, None, None] * eye)
    factor, used = toeplitz.toeplitz_cholesky(scales * column, jitter=0.03)
    assert used == 0.03
    assert not factor.triu(1).any()
    same(factor / scales[..., None].sqrt(), expected, [free])


def test_toeplitz_cholesky_of_no_gps():
    column = torch.rand(0, 5, dtype=torch.float64, requires_grad=True)
    factor, _ = toeplitz.toeplitz_cholesky(column)
    assert factor.shape == (0, 5, 5)
    assert torch.autograd.grad(factor.sum(), column)[0].shape == column.shape


@pytest.mark.parametrize("lengthscale", [0.5, 5.0, 50.0])
def test_toeplitz_cholesky_where_only_the_jitter_keeps_it_definite(lengthscale):
    """The product is the matrix, to rounding; the gradient of a function of the product is the matrix's own."""
    distance = torch.arange(100, dtype=torch.float64)
    scale = torch.tensor([[lengthscale]], dtype=torch.float64, requires_grad=True)
    column = 1.7 * torch.exp(-0.5 * (distance / scale).square())
    factor, used = toeplitz.toeplitz_cholesky(column)
    assert used == 1e-6
    matrix = dense.toeplitz(column) + 1.7 * used * torch.eye(100, dtype=torch.float64)
    left, right = torch.randn(2, 1, 1, 100, dtype=torch.float64)
    close(factor @ factor.mT, matrix)
    found, expected = (
        torch.autograd.grad((left @ x @ right.mT).sum(), scale, retain_graph=True)[0]
        for x in (factor @ factor.mT, matrix)
    )
    close(found, expected, "jittered")


def test_toeplitz_cholesky_on_several_threads(monkeypatch):
    free, column = definite_column(9, 5)
    expected = toeplitz.toeplitz_cholesky(column).factor
    monkeypatch.setattr(compiling, "ENTRIES_PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    same(toeplitz.toeplitz_cholesky(column).factor, expected, [free])


def test_toeplitz_cholesky_twice_differentiated():
    column = definite_column(4, 2)[1].detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda c: toeplitz.toeplitz_cholesky(c).factor, column)
    assert torch.autograd.gradgradcheck(lambda c: toeplitz.toeplitz_cholesky(c).factor, column)


@pytest.mark.usefixtures("both_ways")
def test_jitter_grows_only_as_far_as_it_must_and_warns():
    column = spectrum_column(4.0, 2.0, -3e-5, 2.0)
    with pytest.warns(UserWarning, match="1e-06 to 1e-04"):
        factor, used = toeplitz.toeplitz_cholesky(column, jitter=1e-6)
    assert used == pytest.approx(1e-4)
    close(factor @ factor.mT, dense.toeplitz(column) + used * column[0, 0] * torch.eye(4, dtype=torch.float64))


@pytest.mark.usefixtures("both_ways")
def test_jitter_may_start_at_zero():
    column = spectrum_column(4.0, 2.0, -1e-15, 2.0)
    with pytest.warns(UserWarning, match="grew from 0"):
        factor, used = toeplitz.toeplitz_cholesky(column, jitter=0.0)
    assert 0 < used < 1e-11
    close(factor @ factor.mT, dense.toeplitz(column))


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_cholesky_refuses_infinite_entries(bad, place):
    column = spectrum_column(4.0, 2.0, 2.0)
    column[0, place] = bad
    with pytest.raises(ValueError, match="finite"):
        toeplitz.toeplitz_cholesky(column)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("bad", [(4.0, -0.5, -0.5), (-4.0, -2.0, -2.0), (0.0, 0.0, 0.0)])
def test_cholesky_refuses_an_indefinite_matrix_in_a_batch(bad):
    batch = torch.cat([spectrum_column(4.0, 2.0, 2.0), spectrum_column(*bad)])
    with pytest.raises(ValueError, match="positive semi-definite"):
        toeplitz.toeplitz_cholesky(batch)


def ring_column(m):
    """Return free numbers, and first columns of positive definite symmetric circulant matrices made of them."""
    half = randn(2, m // 2 + 1)
    column = torch.stack([half[:, min(k, m - k)] for k in range(m)], -1)
    bump = torch.nn.functional.pad(0.3 + column.abs().sum(-1, keepdim=True), (0, m - 1))
    return half, column + bump


def spectrum_of(column):
    """Compute the eigenvalues of the circulant matrix with this first column."""
    m = column.shape[-1]
    return circulant.even_transform(column[..., : m // 2 + 1], m)


@pytest.mark.parametrize("m", [4, 5, 8, 9])
def test_circulant_spectrum(m):
    half, column = ring_column(m)
    spectrum, matrix = spectrum_of(column), dense.circulant(column)
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
    spectrum, x = spectrum_of(column), randn(2, m, 3)
    matrix = dense.circulant(column)
    root = dense.symmetric_root(matrix)
    same(circulant.circulant_matmul(spectrum, x), matrix @ x, [half, x])
    same(circulant.circulant_matmul(1 / spectrum, x), torch.linalg.solve(matrix, x), [half, x])
    same(circulant.circulant_matmul(spectrum.sqrt(), x), root @ x, [half, x])


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
    """Diagonals beyond the band's are zero."""
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
