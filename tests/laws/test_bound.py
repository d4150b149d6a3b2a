"""Laws of the divergence and of the evidence lower bound."""

import itertools

import dense
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tolerances import close

from svdkl import GPHead
from svdkl.gp.lattice_gps import LatticeGPs

FAMILIES = ("cholesky", "banded", "mean_field")
seeds = st.integers(0, 2**31)


def scramble(module: torch.nn.Module, seed: int, spread: float = 0.4) -> None:
    """Move every parameter off its start."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(spread * torch.randn(parameter.shape, dtype=parameter.dtype, generator=generator))


@given(
    seeds,
    st.sampled_from(FAMILIES),
    st.booleans(),
    st.sampled_from(["toeplitz", "circulant"]),
    st.lists(st.integers(4, 7), min_size=1, max_size=3).map(tuple),
)
def test_the_divergence_is_never_negative(seed, family, whitened, form, sizes):
    gps = LatticeGPs(2, sizes, posterior=family, whitened=whitened, prior=form).double()
    scramble(gps, seed)
    assert gps.kl(gps.prior()).min().item() > 0


@pytest.mark.parametrize("sizes", [(9,), (5, 6), (4, 5, 4)])
@pytest.mark.parametrize("form", ["toeplitz", "circulant"])
@pytest.mark.parametrize("whitened", [True, False])
def test_the_divergence_is_zero_at_the_prior(sizes, form, whitened):
    gps = LatticeGPs(2, sizes, whitened=whitened, prior=form, kernel="matern32").double()
    scramble(gps.kernel, 3)
    with torch.no_grad():
        gps.posterior.mean.zero_()
        for axis, factor in zip(gps.prior().axes, gps.posterior.axes, strict=True):
            eye = torch.eye(axis.size, dtype=torch.float64).expand(2, -1, -1)
            factor.assign(eye if whitened else torch.linalg.cholesky(axis.multiply(eye)))
    close(gps.kl(gps.prior()), torch.zeros(2), "jittered")


class Regression:
    """A model of one GP, one output and Gaussian noise, whose evidence and posterior are known exactly."""

    def __init__(self, seed: int, num_dims: int = 1, whitened: bool = True):
        generator = torch.Generator().manual_seed(seed)
        rows = 14
        self.h = torch.randn(rows, num_dims, dtype=torch.float64, generator=generator)
        self.y = torch.randn(rows, dtype=torch.float64, generator=generator)
        self.head = GPHead(
            num_dims,
            1,
            "gaussian",
            dims_per_gp=num_dims,
            grid_size=(9,) if num_dims == 1 else (6, 5),
            whitened=whitened,
            kernel="matern52",
            jitter=1e-4,
        ).double()
        self.head.gps.bounding.set_ranges(self.h)
        for part in (self.head.gps.banks[0].gps.kernel, self.head.mixing, self.head.likelihood):
            scramble(part, seed + 1)
        self.gps = self.head.gps.banks[0].gps
        with torch.no_grad():
            (positions,) = self.head.gps.positions(self.h)
            self.m = dense.interpolation_matrix(positions[:, 0], self.gps.grid.sizes)
            eyes = [torch.eye(size, dtype=torch.float64)[None] for size in self.gps.grid.sizes]
            axes = zip(self.gps.prior().axes, eyes, strict=True)
            self.k = dense.krons([axis.multiply(eye) for axis, eye in axes])[0]
            self.a = self.head.mixing.weight.item()
            self.b = self.head.mixing.bias.item()
            self.noise = self.head.likelihood.log_noise.exp().item() ** 2

    def log_evidence(self) -> torch.Tensor:
        design = self.a * self.m
        covariance = design @ self.k @ design.T + self.noise * torch.eye(len(self.y), dtype=torch.float64)
        return dense.normal_log_density(self.y - self.b, covariance)

    def set_optimal(self) -> None:
        """q(u) = p(u | y): S = (K^-1 + a^2 M^T M / noise)^-1, mu = S a M^T (y - b) / noise."""
        design = self.a * self.m
        precision = torch.linalg.inv(self.k) + design.T @ design / self.noise
        s = torch.linalg.inv(precision)
        mean = s @ design.T @ (self.y - self.b) / self.noise
        root = torch.linalg.cholesky(self.k)
        factor = torch.linalg.cholesky((s + s.T) / 2)
        if self.gps.posterior.whitened:
            white = torch.linalg.solve_triangular(root, (s + s.T) / 2, upper=False)
            white = torch.linalg.solve_triangular(root, white.T, upper=False)
            factor = torch.linalg.cholesky((white + white.T) / 2)
        self.gps.posterior.axes[0].assign(factor[None])
        self.gps.set_mean(mean.reshape(1, *self.gps.grid.sizes))


@given(seeds, st.integers(1, 2), st.booleans())
def test_the_bound_is_below_the_exact_evidence(seed, num_dims, whitened):
    model = Regression(seed, num_dims, whitened)
    for spread in (0.01, 0.5):
        scramble(model.gps.posterior, seed, spread)
        bound = model.head.elbo(model.h, model.y, num_data=len(model.y)).value * len(model.y)
        assert bound.item() <= model.log_evidence().item() + 1e-9


@pytest.mark.parametrize(("seed", "whitened"), list(itertools.product(range(4), (True, False))))
def test_the_bound_is_the_evidence_at_the_optimal_posterior(seed, whitened):
    model = Regression(seed, whitened=whitened)
    model.set_optimal()
    bound = model.head.elbo(model.h, model.y, num_data=len(model.y)).value * len(model.y)
    close(bound, model.log_evidence(), "jittered")


@pytest.mark.parametrize(("seed", "whitened"), list(itertools.product(range(4), (True, False))))
def test_the_optimal_posterior_is_exact_gp_regression(seed, whitened):
    """A GP with the kernel M K M^T has the same mean and variance at new points."""
    model = Regression(seed, whitened=whitened)
    model.set_optimal()
    new = torch.randn(6, 1, dtype=torch.float64)
    (positions,) = model.head.gps.positions(new)
    m_new = dense.interpolation_matrix(positions[:, 0].detach(), model.gps.grid.sizes)
    gram = model.a**2 * model.m @ model.k @ model.m.T + model.noise * torch.eye(len(model.y), dtype=torch.float64)
    cross = model.a * m_new @ model.k @ model.m.T * model.a
    mean = model.b + cross @ torch.linalg.solve(gram, model.y - model.b)
    variance = (model.a**2 * m_new @ model.k @ m_new.T - cross @ torch.linalg.solve(gram, cross.T)).diagonal()
    prediction = model.head.predict(new)
    close(prediction.mean[:, 0], mean, "jittered")
    close(prediction.model_variance[:, 0], variance, "jittered")
    close(prediction.noise_variance[:, 0], torch.full_like(mean, model.noise))
    covariance = m_new @ model.k @ m_new.T - m_new @ model.k @ model.m.T * model.a @ torch.linalg.solve(
        gram, model.a * model.m @ model.k @ m_new.T
    )
    close(model.head.gps.latent_covariance(new, new, 0), covariance, "jittered")


@given(seeds, st.sampled_from(["gaussian", "poisson", "bernoulli"]))
def test_the_minibatch_bound_is_unbiased(seed, likelihood):
    """The mean over all minibatches of a partition is exactly the bound of the whole data, with weights too."""
    generator = torch.Generator().manual_seed(seed)
    head = GPHead(3, 2, likelihood, grid_size=6).double()
    scramble(head, seed)
    h = torch.randn(12, 3, dtype=torch.float64, generator=generator)
    y = torch.randint(2, (12, 2), generator=generator).double()
    weight = torch.rand(12, dtype=torch.float64, generator=generator)
    whole = head.elbo(h, y, num_data=12, sample_weight=weight).value
    parts = [head.elbo(h[i], y[i], num_data=12, sample_weight=weight[i]).value for i in torch.randperm(12).split(4)]
    close(torch.stack(parts).mean(), whole)


@pytest.mark.parametrize("estimator", ["joint", "marginal"])
def test_both_estimators_have_the_same_mean(estimator):
    """Each estimates the expectation that many draws of u from the dense posterior give."""
    head = GPHead(2, 3, grid_size=5, estimator=estimator, num_samples=20_000).double()
    scramble(head, 5)
    h, y = torch.randn(6, 2, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2])
    generator = torch.Generator().manual_seed(1)
    estimate = head.elbo(h, y, num_data=6, generator=generator).expected_log_likelihood

    gps = head.gps.banks[0].gps
    prior = gps.prior()
    (positions,) = head.gps.positions(h)
    f = []
    for j in range(2):
        root = prior.axes[0].root[j] @ gps.posterior.axes[0].dense()[j]
        mean = prior.axes[0].root[j] @ gps.posterior.mean[j]
        u = mean + torch.randn(20_000, 5, dtype=torch.float64, generator=generator) @ root.T
        f.append(u @ dense.interpolation_matrix(positions[:, j].detach(), (5,)).T)
    logits = torch.stack(f, -1) @ head.mixing.weight.T + head.mixing.bias
    values = logits.log_softmax(-1)[:, torch.arange(6), y]
    # Both have twenty thousand draws: we allow four standard errors of the difference.
    error = 4 * (2 * values.mean(1).var() / len(values)).sqrt().item()
    assert abs(estimate.item() - values.mean().item()) < error
