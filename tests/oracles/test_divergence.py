"""KL(q(u) || p(u)) against the definition, and against the derivatives in the paper's appendix."""

import itertools
import math

import dense
import pytest
import torch
from tolerances import close

from oracles.twins import FAMILIES, FORMS, LATTICES, NUM_GPS, axis_covariances, axis_factor, random_gps, same, write_out
from svdkl.gp.divergence import kl_divergence, trace_of_solve
from svdkl.gp.linalg.kronecker import kron_log_det, kron_trace

every_pair = pytest.mark.parametrize(
    ("form", "family", "sizes"), list(itertools.product(FORMS, FAMILIES, LATTICES)), ids=str
)


@pytest.mark.parametrize("whitened", [True, False])
@every_pair
def test_kl(form, family, sizes, whitened):
    """A whitened KL does not depend on the kernel, and neither does the dense one."""
    gps = random_gps(sizes, family, whitened, form)
    q = write_out(gps)
    expected = torch.stack([dense.kl_gaussians(q.mean[j], q.S[j], q.K[j]) for j in range(NUM_GPS)])
    same(kl_divergence(gps.posterior, gps.prior()), expected, list(gps.parameters()), "jittered")


@pytest.mark.parametrize("form", FORMS)
def test_kl_with_a_badly_conditioned_prior(form):
    """The jitter is the default, the lengthscales are long."""
    gps = random_gps((4, 16), "cholesky", False, form, jitter=1e-6)
    with torch.no_grad():
        gps.kernel.axes[1].log_lengthscale.copy_(torch.tensor([0.25, 0.3]).log())
    q = write_out(gps)
    expected = torch.stack([dense.kl_gaussians(q.mean[j], q.S[j], q.K[j]) for j in range(NUM_GPS)])
    same(kl_divergence(gps.posterior, gps.prior()), expected, list(gps.parameters()), "jittered")


@pytest.mark.parametrize("whitened", [True, False])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", LATTICES)
def test_kl_of_the_prior_is_zero(sizes, form, whitened):
    """The constant is m; with the D that the paper prints it would be (m - D) / 2."""
    gps = random_gps(sizes, "cholesky", whitened, form)
    for K, factor in zip(axis_covariances(gps), gps.posterior.axes, strict=True):
        eye = torch.eye(factor.size, dtype=torch.float64).expand_as(K)
        factor.assign(eye if whitened else torch.linalg.cholesky(K))
    with torch.no_grad():
        gps.posterior.mean.zero_()
    close(kl_divergence(gps.posterior, gps.prior()), torch.zeros(NUM_GPS))


# The two terms of equation (kron-kl), separately.


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("sizes", LATTICES)
def test_log_det_of_kronecker_covariance(sizes, family):
    """log|S| = 2 sum_d (m / m_d) sum_p log L_d,pp."""
    gps = random_gps(sizes, family)
    S, raw = write_out(gps).S, list(gps.posterior.factors.parameters())
    same(kron_log_det([factor.log_det() for factor in gps.posterior.axes], sizes), torch.logdet(S), raw, "jittered")
    m = math.prod(sizes)
    diagonals = [axis_factor(factor).diagonal(0, 1, 2) for factor in gps.posterior.axes]
    by_hand = sum(2 * (m / L.shape[-1]) * L.log().sum(-1) for L in diagonals)
    same(by_hand, torch.logdet(S), raw, "jittered")


@every_pair
def test_trace_of_kronecker_solve(form, family, sizes):
    """tr(K^-1 S) = prod_d tr(K_d^-1 S_d)."""
    gps = random_gps(sizes, family, False, form)
    q, prior = write_out(gps), gps.prior()
    expected = (torch.linalg.inv(q.K) @ q.S).diagonal(0, 1, 2).sum(-1)
    traces = [trace_of_solve(axis, factor) for axis, factor in zip(prior.axes, gps.posterior.axes, strict=True)]
    same(kron_trace(traces), expected, list(gps.parameters()))
    for K, factor, trace in zip(axis_covariances(gps), gps.posterior.axes, traces, strict=True):
        L = axis_factor(factor)
        same(trace, torch.linalg.solve(K, L @ L.mT).diagonal(0, 1, 2).sum(-1), list(gps.parameters()))


# The appendix's derivatives. The paper sets dL/dtheta = dKL/dtheta; the bound holds -KL, so the sign there is the KL's.


def hyperparameter_derivatives(K_axes, gps):
    """Differentiate K of RBF kernels by each log lengthscale, with factor r^2 exp(-r^2/2), and by log variance."""
    derivatives = []
    for d, size in enumerate(gps.grid.sizes):
        i = torch.arange(size, dtype=torch.float64)
        r = (i[:, None] - i).abs() / (size - 1) / gps.kernel.axes[d].lengthscale[:, None, None]
        dK_d = r**2 * torch.exp(-(r**2) / 2) * (gps.kernel.variance[:, None, None] if d == 0 else 1)
        derivatives.append(dense.krons([dK_d if e == d else K for e, K in enumerate(K_axes)]))
    return [*derivatives, dense.krons(K_axes)]


@pytest.mark.parametrize("sizes", LATTICES)
def test_derivatives_of_hyperparameters(sizes, monkeypatch):
    """dKL/dtheta = 1/2 {tr(K^-1 dK) - tr(K^-1 dK K^-1 S) - mu^T K^-1 dK K^-1 mu}."""
    monkeypatch.setattr("oracles.twins.KERNELS", ["rbf"] * 3)
    gps = random_gps(sizes)
    with torch.no_grad():
        K_axes, q = axis_covariances(gps), write_out(gps)
        inverse = torch.linalg.inv(q.K)
        expected = []
        for dK in hyperparameter_derivatives(K_axes, gps):
            A = inverse @ dK
            traces = (A - A @ inverse @ q.S).diagonal(0, 1, 2).sum(-1)
            expected.append(0.5 * (traces - torch.einsum("jm,jmn,jn->j", q.mean, A @ inverse, q.mean)))
    theta = [*(axis.log_lengthscale for axis in gps.kernel.axes), gps.kernel.log_variance]
    actual = torch.autograd.grad(kl_divergence(gps.posterior, gps.prior()).sum(), theta)
    for a, b in zip(actual, expected, strict=True):
        close(a, b)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", LATTICES)
def test_derivatives_of_the_posterior(sizes, form):
    """dKL/dL_d = -(m / m_d) L_d^-T + K_d^-1 L_d prod_{d' != d} tr(K_d'^-1 S_d') below and on the diagonal.

    The paper prints -(L_d^-1)_pq for the first term: without the transposition, in which it cannot be a derivative with
    respect to a lower triangular matrix, and without the factor rank_d = m / m_d of its own equation (kron-kl).
    """
    gps = random_gps(sizes, form=form)
    m = math.prod(sizes)
    with torch.no_grad():
        K_axes, L_axes = axis_covariances(gps), [axis_factor(factor) for factor in gps.posterior.axes]
        traces = [torch.linalg.solve(K, L @ L.mT).diagonal(0, 1, 2).sum(-1) for K, L in zip(K_axes, L_axes)]
        expected = []
        for d, (K, L) in enumerate(zip(K_axes, L_axes, strict=True)):
            others = math.prod(traces[:d] + traces[d + 1 :], start=torch.ones(NUM_GPS, dtype=torch.float64))
            by_L = -(m / sizes[d]) * torch.linalg.inv(L).mT + torch.linalg.solve(K, L) * others[:, None, None]
            raw = gps.posterior.axes[d].raw
            chain = torch.diag_embed(torch.sigmoid(raw.diagonal(0, 1, 2)))  # the diagonal is softplus(raw)
            expected.append(by_L * (chain + torch.ones_like(chain).tril(-1)))
        expected.append(torch.linalg.solve(dense.krons(K_axes), gps.posterior.mean.flatten(1)).reshape(NUM_GPS, *sizes))
    parameters = [*(factor.raw for factor in gps.posterior.axes), gps.posterior.mean]
    actual = torch.autograd.grad(kl_divergence(gps.posterior, gps.prior()).sum(), parameters)
    for a, b in zip(actual, expected, strict=True):
        close(a, b)
