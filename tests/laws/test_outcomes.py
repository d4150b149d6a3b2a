"""Quantiles and draws of targets, against scipy where the latent is known, and else against each other."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from svdkl.estimators.quantiles import draw, quantiles
from svdkl.likelihoods import Gaussian, NegativeBinomial, Poisson, StudentT

LEVELS = np.array([0.001, 0.05, 0.3, 0.5, 0.9, 0.999])
MEAN = np.array([[-1.0, 0.5], [2.0, 4.0], [0.0, 7.0]])
LIKELIHOODS = [
    Gaussian(2, noise=0.7),
    StudentT(2, scale=0.4, degrees=3.5),
    Poisson(2),
    NegativeBinomial(2, total_count=2.5),
]


def exact(likelihood, latent, levels):
    rate = np.exp(latent)[..., None]
    match likelihood:
        case Gaussian():
            return stats.norm.ppf(levels, latent[..., None], 0.7)
        case StudentT():
            return stats.t.ppf(levels, 3.5, latent[..., None], 0.4)
        case Poisson():
            return stats.poisson.ppf(levels, rate)
        case _:
            return stats.nbinom.ppf(levels, 2.5, 2.5 / (2.5 + rate))


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda part: type(part).__name__)
def test_quantiles_of_a_known_latent_are_scipys(likelihood):
    found = quantiles(likelihood, MEAN, np.zeros_like(MEAN), LEVELS)
    np.testing.assert_allclose(found, exact(likelihood, MEAN, LEVELS), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda part: type(part).__name__)
def test_draws_of_huge_rates_are_finite(likelihood):
    assert np.isfinite(draw(likelihood, np.full((1, 2, 5), 60.0), np.random.RandomState(0))).all()


@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda part: type(part).__name__)
def test_quantiles_agree_with_draws(likelihood, spread):
    random = np.random.RandomState(0)
    mean = np.array([[0.3, 1.5]])
    count = 200_000
    latent = mean[..., None] + spread * random.standard_normal((1, 2, count))
    if isinstance(likelihood, Poisson | NegativeBinomial):
        latent = latent.clip(max=40)  # the largest rate that numpy draws from
    draws = draw(likelihood, latent, random)
    found = quantiles(likelihood, mean, np.full((1, 2), spread**2), LEVELS)
    at_most = (draws[:, :, None] <= found[..., None]).mean(-1)
    below = (draws[:, :, None] < found[..., None]).mean(-1)
    error = 5 * np.sqrt(LEVELS * (1 - LEVELS) / count) + 1e-4
    assert (at_most > LEVELS - error).all()  # F(q) >= level, and q is the smallest such q
    assert (below < LEVELS + error).all()


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda part: type(part).__name__)
def test_quantiles_grow_with_their_level_and_know_no_other_row(likelihood):
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(size=(40, 2)), rng.exponential(size=(40, 2)) ** 3
    levels = np.linspace(0.01, 0.99, 25)
    together = quantiles(likelihood, mean, variance, levels)
    assert (np.diff(together, axis=-1) >= 0).all()
    for row in (0, 17, 39):
        alone = quantiles(likelihood, mean[row : row + 1], variance[row : row + 1], levels)
        assert np.array_equal(alone[0], together[row])


def test_a_narrow_noise_on_a_wide_latent_leaves_the_latents_quantiles():
    """Quadrature over the latent must not leave steps in the quantiles."""
    narrow = StudentT(1, scale=0.05, degrees=30.0)
    found = quantiles(narrow, np.zeros((1, 1)), np.ones((1, 1)), np.linspace(0.02, 0.98, 49))
    np.testing.assert_allclose(found[0, 0], stats.norm.ppf(np.linspace(0.02, 0.98, 49)), atol=0.006)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda part: type(part).__name__)
def test_draws_have_the_moments_of_the_likelihood(likelihood):
    latent = np.array([[0.3, 1.5]])
    draws = draw(likelihood, np.repeat(latent[..., None], 200_000, -1), np.random.RandomState(0))
    mean, variance = (part.detach().numpy() for part in likelihood.predictive_terms(torch.tensor(latent)))
    np.testing.assert_allclose(draws.mean(-1), mean, atol=5 * math.sqrt(variance.max() / 200_000))
    np.testing.assert_allclose(draws.var(-1), variance, rtol=0.1)
