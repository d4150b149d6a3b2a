"""q(f) against M mu and M S M^T written out."""

import itertools

import dense
import pytest
import torch
from tolerances import close

from oracles.twins import FAMILIES, FORMS, LATTICES, NUM_GPS, random_gps, random_positions, same, write_out
from svdkl.gp.marginals import tabulate

each_posterior = pytest.mark.parametrize(
    ("form", "family", "whitened", "sizes"), list(itertools.product(FORMS, FAMILIES, [True, False], LATTICES)), ids=str
)


def moments(M, mean, S):
    """Return means and variances, (B, J)."""
    return (M @ mean.unsqueeze(-1)).squeeze(-1).mT, (M @ S @ M.mT).diagonal(dim1=1, dim2=2).mT


@pytest.fixture(params=["fused", "eager"])
def path(request, monkeypatch):
    """Run the compiled loop for CPUs, then the tensor operations for other devices."""
    if request.param == "eager":
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)


@each_posterior
def test_marginals(form, family, whitened, sizes, path):
    gps, positions = random_gps(sizes, family, whitened, form), random_positions(24, sizes)
    q = write_out(gps)
    mean, variance = moments(dense.interpolation_matrices(positions, sizes), q.mean, q.S)
    marginals = tabulate(gps.posterior, gps.prior(), torch.float64).at(positions)
    inputs = [*gps.parameters(), positions]
    same(marginals.mean, mean, inputs)
    same(marginals.variance, variance, inputs)


@pytest.mark.parametrize("sizes", LATTICES)
def test_nan_and_no_rows(sizes, path):
    gps, positions = random_gps(sizes), random_positions(24, sizes).detach()
    tables = tabulate(gps.posterior, None, torch.float64)
    expected = tables.at(positions)
    positions[3, 1, -1] = torch.nan
    for result, other in zip(tables.at(positions), expected, strict=True):
        assert result.isnan().nonzero().tolist() == [[3, 1]]
        close(result[~result.isnan()], other[~result.isnan()])
    for result in tables.at(positions[:0]):
        assert result.shape == (0, NUM_GPS)
        grads = torch.autograd.grad(
            result.sum(), list(gps.posterior.parameters()), retain_graph=True, materialize_grads=True
        )
        assert not any(grad.any() for grad in grads)


@pytest.mark.parametrize("sizes", LATTICES)
def test_marginals_in_single_precision(sizes):
    gps, positions = random_gps(sizes, whitened=True), random_positions(24, sizes).detach()
    q = write_out(gps)
    mean, variance = moments(dense.interpolation_matrices(positions, sizes), q.mean, q.S)
    marginals = tabulate(gps.posterior, gps.prior(), torch.float32).at(positions.float())
    assert marginals.mean.dtype == marginals.variance.dtype == torch.float32
    close(marginals.mean, mean.float(), "float32")
    close(marginals.variance, variance.float(), "float32")


@pytest.mark.parametrize("sizes", LATTICES)
def test_direct_marginals_need_no_prior(sizes):
    gps, positions = random_gps(sizes, "banded"), random_positions(24, sizes)
    q = write_out(gps)
    mean, variance = moments(dense.interpolation_matrices(positions, sizes), q.mean, q.S)
    marginals = tabulate(gps.posterior, None, torch.float64).at(positions)
    close(marginals.mean, mean)
    close(marginals.variance, variance)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", LATTICES)
def test_prior_marginals(sizes, form, path):
    gps, positions = random_gps(sizes, form=form), random_positions(24, sizes)
    K = write_out(gps).K
    mean, variance = moments(dense.interpolation_matrices(positions, sizes), torch.zeros_like(K[..., 0]), K)
    marginals = gps.prior_tables(gps.prior(), torch.float64).at(positions)
    close(marginals.mean, mean)
    same(marginals.variance, variance, [*gps.kernel.parameters(), positions])


@each_posterior
def test_covariances(form, family, whitened, sizes):
    """Prior and posterior covariances between all pairs of two sets of points."""
    gps = random_gps(sizes, family, whitened, form)
    left, right = random_positions(9, sizes), random_positions(12, sizes)
    q, prior = write_out(gps), gps.prior()
    M, M2 = (dense.interpolation_matrices(x, sizes) for x in (left, right))
    inputs = [*gps.parameters(), left, right]
    same(gps.posterior_covariance(left, right, prior), M @ q.S @ M2.mT, inputs)
    same(gps.prior_covariance(left, right, prior), M @ q.K @ M2.mT, inputs)


@each_posterior
def test_samples(form, family, whitened, sizes):
    """u = mu + L eps, and R (mu + L eps) where whitened, on the noise that the generator gives."""
    gps = random_gps(sizes, family, whitened, form)
    draws = gps.sample(gps.prior(), 3, torch.float64, torch.Generator().manual_seed(5))
    noise = torch.randn(3, NUM_GPS, *sizes, dtype=torch.float64, generator=torch.Generator().manual_seed(5)).flatten(2)
    q = write_out(gps)
    expected = q.mean + (q.L @ noise.unsqueeze(-1)).squeeze(-1)
    same(draws.flatten(2), expected, list(gps.parameters()))
