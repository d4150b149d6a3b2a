"""p(u) against dense covariances between all grid points, on a line and on a ring."""

import dense
import pytest
import torch
from tolerances import close

from oracles.twins import FORMS, KERNELS, LATTICES, NUM_GPS, axis_covariances, random_gps, same, uniform
from svdkl.gp.grid import Grid
from svdkl.gp.kernels import AxisKernel, build_kernel
from svdkl.gp.linalg.circulant import circulant_column, circulant_congruence, even_transform
from svdkl.gp.prior import build_prior

CPU = torch.device("cpu")


def roots_of(matrices, forms):
    """Compute Cholesky factors on lines and symmetric roots on rings."""
    root = {"toeplitz": torch.linalg.cholesky, "circulant": dense.symmetric_root}
    return dense.krons([root[form](K) for form, K in zip(forms, matrices, strict=True)])


def apply(matrices, x):
    """Multiply x of shape (T, J, m_1, ..., m_D) with the matrix of each GP."""
    return (matrices @ x.flatten(2).unsqueeze(-1)).reshape(x.shape)


MIXED = [("toeplitz", "circulant"), ("circulant", "toeplitz", "circulant")]


@pytest.mark.parametrize("forms", [*((form,) * D for form in FORMS for D in (1, 2, 3)), *MIXED])
def test_prior(forms):
    sizes = LATTICES[len(forms) - 1]
    gps = random_gps(sizes)
    gps.forms = forms
    prior, K_axes = gps.prior(), axis_covariances(gps)
    K, R = dense.krons(K_axes), roots_of(K_axes, forms)
    x = torch.randn(3, NUM_GPS, *sizes, dtype=torch.float64, requires_grad=True)
    inputs = [*gps.kernel.parameters(), x]
    assert prior.sizes == sizes
    same(prior.colour(x), apply(R, x), inputs)
    same(prior.whiten(x), apply(torch.linalg.inv(R), x), inputs)
    same(prior.log_det(), torch.logdet(K), inputs)
    quadratic = torch.einsum("tjm,jmn,tjn->tj", x.flatten(2), torch.linalg.inv(K), x.flatten(2))
    same(prior.whiten(x).flatten(2).square().sum(-1), quadratic, inputs)


@pytest.mark.parametrize("sizes", LATTICES)
def test_kernel_between_all_grid_points(sizes):
    """Without jitter, K is the D-dimensional kernel itself."""
    gps = random_gps(sizes, jitter=0.0)
    K = []
    for j in range(NUM_GPS):
        lengths = [axis.log_lengthscale[j].exp() for axis in gps.kernel.axes]
        correlations = [
            lambda x, name=name, ls=ls: dense.CORRELATIONS[name](x, ls) for name, ls in zip(KERNELS, lengths)
        ]
        K.append(dense.kernel_matrix(correlations, gps.kernel.log_variance[j].exp(), sizes))
    K = torch.stack(K)
    eyes = [torch.eye(size, dtype=torch.float64).expand(NUM_GPS, -1, -1) for size in sizes]
    inputs = list(gps.kernel.parameters())
    same(dense.krons([axis.multiply(eye) for axis, eye in zip(gps.prior().axes, eyes, strict=True)]), K, inputs)
    same(gps.prior().log_det(), torch.logdet(K), inputs)


@pytest.mark.parametrize("size", [8, 9])
@pytest.mark.parametrize("lengthscale", [0.2, 0.45])
def test_ring(size, lengthscale):
    """The kernel is summed over all ways around; so the covariance is the same all around the ring."""
    gps = random_gps((size, size), form="circulant", jitter=0.0)
    with torch.no_grad():
        gps.kernel.axes[1].log_lengthscale.copy_(torch.tensor([lengthscale, 0.8 * lengthscale]).log())
    K = axis_covariances(gps)[1]
    axis = gps.prior().axes[1]
    same(axis.column, K[:, 0], [gps.kernel.axes[1].log_lengthscale])
    close(K[:, 0, 1:], K[:, 0, 1:].flip(-1))
    close(K[:, 1:, 1:], K[:, :-1, :-1])


@pytest.mark.parametrize("size", [7, 8])
def test_ring_of_long_lengthscales_stays_positive(size):
    """The sum around the ring is cut off: eigenvalues below zero are lifted to it, and all get the jitter."""
    kernel = build_kernel("rbf", NUM_GPS, 1).double()
    with torch.no_grad():
        kernel.axes[0].log_lengthscale.copy_(torch.tensor([0.9, 2.7]).log())
    (axis,) = build_prior(kernel, Grid((size,)), ("circulant",), 1e-4, CPU).axes
    x = torch.randn(NUM_GPS, size, 3, dtype=torch.float64)
    matrix = dense.circulant(axis.column)
    assert (torch.linalg.eigvalsh(matrix) > 0).all()
    close(axis.multiply(x), matrix @ x)
    close(axis.colour(axis.colour(x)), matrix @ x)
    close(axis.log_det(), torch.logdet(matrix))


@pytest.mark.parametrize("form", FORMS)
def test_rows_times_the_root(form):
    gps = random_gps((9,), form=form)
    (axis,), (K,) = gps.prior().axes, axis_covariances(gps)
    rows = torch.randn(NUM_GPS, 4, 9, dtype=torch.float64, requires_grad=True)
    same(axis.colour_rows(rows), rows @ roots_of([K], gps.forms), [*gps.kernel.parameters(), rows])


@pytest.mark.parametrize("m", [4, 7, 8])
def test_even_transform(m):
    """The transform of half a sequence equals sums of cosines over the whole."""
    half = torch.randn(NUM_GPS, m // 2 + 1, dtype=torch.float64, requires_grad=True)
    whole = half[:, [min(n, m - n) for n in range(m)]]
    frequency, n = torch.arange(m // 2 + 1, dtype=torch.float64), torch.arange(m, dtype=torch.float64)
    same(even_transform(half, m), whole @ torch.cos(2 * torch.pi * frequency * n[:, None] / m), [half])
    close(circulant_column(even_transform(half, m), m), whole)


def spectrum_and_bands(m, width):
    """Draw the spectrum of a circulant C, and main and upper diagonals of a banded W, with zeros past their ends."""
    spectrum = uniform(NUM_GPS, m // 2 + 1, low=0.1, high=2).requires_grad_()
    inside = torch.arange(m) + torch.arange(width)[:, None] < m
    free = torch.randn(NUM_GPS, width, m, dtype=torch.float64, requires_grad=True)
    return spectrum, free, free * inside


@pytest.mark.parametrize("wanted", [1, 4])
@pytest.mark.parametrize(("m", "width"), [(4, 1), (4, 3), (7, 2), (9, 5), (12, 5), (6, 6)])
def test_congruence(m, width, wanted):
    """Rings are odd and even, and some bands reach all around."""
    spectrum, free, bands = spectrum_and_bands(m, width)
    upper = sum(torch.diag_embed(bands[:, k, : m - k], k) for k in range(width))
    W = upper + upper.triu(1).mT
    C = dense.circulant(circulant_column(spectrum, m))
    product = C @ W @ C
    diagonals = [torch.nn.functional.pad(product.diagonal(k, 1, 2), (0, k)) for k in range(wanted)]
    same(circulant_congruence(spectrum, bands, wanted), torch.stack(diagonals, 1), [spectrum, free])


def test_congruence_twice_differentiated():
    spectrum, free, bands = spectrum_and_bands(5, 2)
    inside = bands.detach() != 0
    assert torch.autograd.gradgradcheck(lambda s, b: circulant_congruence(s, b * inside, 4), (spectrum, free))


class NotQuiteAKernel(AxisKernel):
    """A matrix with 1 + 3e-5 off its diagonal, whose smallest eigenvalue is -3e-5."""

    def forward(self, distance):
        return (1 + 3e-5 * (distance > 0).to(distance.dtype)).expand(NUM_GPS, -1)


def test_grown_jitter_is_part_of_the_covariance():
    """Products and factors belong to the same matrix."""
    kernel = build_kernel(NotQuiteAKernel(), NUM_GPS, 1).double()
    with torch.no_grad():
        kernel.log_variance.copy_(torch.tensor([-1.0, 2.0]))
    with pytest.warns(UserWarning, match="jitter grew from 1e-06 to 1e-04"):
        (axis,) = build_prior(kernel, Grid((6,)), ("toeplitz",), 1e-6, CPU).axes
    eye = torch.eye(6, dtype=torch.float64)
    K = kernel.variance[:, None, None] * (1 + 3e-5 * (1 - eye) + axis.jitter * eye)
    eyes = eye.repeat(NUM_GPS, 1, 1)
    close(axis.multiply(eyes), K)
    close(axis.colour(eyes) @ axis.colour(eyes).mT, K)
    close(axis.log_det(), torch.logdet(K))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", LATTICES)
def test_mean_is_set_and_read(sizes, form):
    gps = random_gps(sizes, whitened=True, form=form)
    u = torch.randn(NUM_GPS, *sizes, dtype=torch.float64)
    gps.set_mean(u)
    R = roots_of(axis_covariances(gps), gps.forms)
    close(apply(R, gps.posterior.mean.unsqueeze(0))[0], u)
    close(gps.mean(gps.prior()), u)
