"""Likelihoods against torch.distributions, expectations against dense sums over a fine lattice of the latents."""

import dense
import pytest
import torch
from tolerances import close
from torch import distributions as td

from svdkl import GPHead
from svdkl.gp.elbo import expectation_over_marginals, expectation_over_samples
from svdkl.gp.marginals import Marginals
from svdkl.gp.mixing import Mixing
from svdkl.gp.prediction import (
    latent_points,
    predictive_log_density,
    predictive_moments,
    predictive_probabilities,
)
from svdkl.gp.quadrature import normal_points
from svdkl.likelihoods import build_likelihood

C, J, B = 2, 3, 6
NAMES = ("bernoulli", "gaussian", "student_t", "poisson", "negative_binomial")


def make(name: str, num_outputs: int = C):
    likelihood = build_likelihood(name, num_outputs).double()
    with torch.no_grad():
        for parameter in likelihood.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return likelihood


def reference(likelihood, g: torch.Tensor) -> td.Distribution:
    """Build the same distribution by torch."""
    match type(likelihood).__name__:
        case "Bernoulli":
            return td.Bernoulli(logits=g)
        case "Gaussian":
            return td.Normal(g, likelihood.log_noise.exp())
        case "StudentT":
            return td.StudentT(2 + likelihood.log_excess.exp(), g, likelihood.log_scale.exp())
        case "Poisson":
            return td.Poisson(g.exp())
        case "NegativeBinomial":
            r = likelihood.log_total_count.exp()
            return td.NegativeBinomial(r, logits=g - r.log())
    raise AssertionError


def targets(name: str, num_outputs: int = C) -> torch.Tensor:
    if name == "bernoulli":
        return torch.randint(2, (B, num_outputs)).double()
    if name in ("poisson", "negative_binomial"):
        return torch.randint(5, (B, num_outputs)).double()
    return torch.randn(B, num_outputs, dtype=torch.float64)


def mixed() -> tuple[Mixing, Marginals]:
    mixing = Mixing(J, C).double()
    with torch.no_grad():
        mixing.weight.copy_(0.6 * torch.randn(C, J))
        mixing.bias.copy_(0.4 * torch.randn(C))
    mean = 0.8 * torch.randn(B, J, dtype=torch.float64)
    variance = 0.1 + 0.4 * torch.rand(B, J, dtype=torch.float64)
    return mixing, Marginals(mean.requires_grad_(), variance.requires_grad_())


def brute_force(function, mean: torch.Tensor, variance: torch.Tensor) -> torch.Tensor:
    """E function(latent) by a sum over 2,001 points from -9 to 9 standard deviations."""
    x = torch.linspace(-9, 9, 2001, dtype=torch.float64)
    weight = torch.exp(-0.5 * x.square())
    weight = weight / weight.sum()
    values = function(mean + variance.sqrt() * x[:, None, None])
    return (weight[:, None, None] * values).sum(0)


@pytest.mark.parametrize("name", NAMES)
def test_log_prob_mean_and_variance_equal_torchs(name):
    likelihood, g, y = make(name), torch.randn(4, B, C, dtype=torch.float64), targets(name)
    expected = reference(likelihood, g)
    close(likelihood.log_prob(g, y), expected.log_prob(y))
    if name != "bernoulli":
        mean, variance = likelihood.predictive_terms(g)
        close(mean, expected.mean)
        close(variance, expected.variance)


@pytest.mark.parametrize("name", NAMES)
def test_expected_log_likelihood(name):
    """Closed forms and Gauss-Hermite, with gradients of marginals, mixing and the likelihood's parameters."""
    likelihood, y = make(name), targets(name)
    mixing, marginals = mixed()
    parameters = [*mixing.parameters(), *likelihood.parameters(), *marginals]
    actual = expectation_over_marginals(likelihood, mixing, marginals, y, num_samples=1)

    g_mean = marginals.mean @ mixing.weight.T + mixing.bias
    g_variance = torch.stack([(mixing.weight[c] ** 2 * marginals.variance).sum(-1) for c in range(C)], -1)
    expected = brute_force(lambda g: reference(likelihood, g).log_prob(y), g_mean, g_variance).sum(-1)
    close(actual, expected, "quadrature")
    cotangent = torch.randn(B, dtype=torch.float64)
    gradients = torch.autograd.grad((actual * cotangent).sum(), parameters)
    for gradient, wanted in zip(gradients, torch.autograd.grad((expected * cotangent).sum(), parameters), strict=True):
        close(gradient, wanted, "quadrature")


@pytest.mark.parametrize("num_outputs", [2, 4])
def test_softmax_is_the_papers_likelihood(num_outputs):
    """p(y | f, A) = exp((A f)^T y) / sum_c exp((A f)^T e_c), y one-hot, written out."""
    likelihood = make("softmax", num_outputs)
    mixing = Mixing(J, num_outputs).double()
    with torch.no_grad():
        mixing.weight.copy_(torch.randn(num_outputs, J))
        mixing.bias.copy_(torch.randn(num_outputs))
    f = torch.randn(5, B, J, dtype=torch.float64, requires_grad=True)
    y = torch.randint(num_outputs, (B,))
    actual = expectation_over_samples(likelihood, mixing, f, y)

    a_f = f @ mixing.weight.T + mixing.bias
    one_hot = torch.eye(num_outputs, dtype=torch.float64)[y]
    expected = ((a_f * one_hot).sum(-1).exp() / a_f.exp().sum(-1)).log().mean(0)
    close(actual, expected)
    inputs = [f, *mixing.parameters()]
    cotangent = torch.randn(B, dtype=torch.float64)
    gradients = torch.autograd.grad((actual * cotangent).sum(), inputs)
    for gradient, wanted in zip(gradients, torch.autograd.grad((expected * cotangent).sum(), inputs), strict=True):
        close(gradient, wanted)


@pytest.mark.parametrize("name", ["softmax", *NAMES])
def test_predictive_distribution(name):
    """Probabilities or moments, and density, against the brute-force integral; two classes by their log odds."""
    likelihood = make(name)
    mixing, marginals = mixed()
    y = torch.randint(2, (B,)) if name == "softmax" else targets(name)
    latents = latent_points(likelihood, mixing, marginals, normal_points(64, J))
    g_mean = marginals.mean @ mixing.weight.T + mixing.bias
    g_variance = marginals.variance @ mixing.weight.square().T
    if name == "softmax":
        contrast = mixing.weight[1] - mixing.weight[0]
        odds = g_mean[:, 1:] - g_mean[:, :1]
        yes = brute_force(torch.sigmoid, odds, marginals.variance @ contrast.square()[:, None])
        close(predictive_probabilities(likelihood, latents), torch.cat([1 - yes, yes], -1), "quadrature")
        density = torch.where(y[:, None] == 1, yes, 1 - yes)
    else:
        density = brute_force(lambda g: reference(likelihood, g).log_prob(y).exp(), g_mean, g_variance)
        mean = brute_force(lambda g: reference(likelihood, g).mean, g_mean, g_variance)
        second = brute_force(
            lambda g: reference(likelihood, g).variance + reference(likelihood, g).mean ** 2, g_mean, g_variance
        )
        if name == "bernoulli":
            close(predictive_probabilities(likelihood, latents), mean, "quadrature")
        else:
            moments = predictive_moments(likelihood, latents)
            close(moments.mean, mean, "quadrature")
            close(moments.variance, second - mean**2, "quadrature")
    close(
        predictive_log_density(likelihood, mixing, marginals, normal_points(64, J), y),
        density.log().sum(-1),
        "quadrature",
    )


@pytest.mark.parametrize("num_gps", [4, 9])
def test_latent_points_have_the_moments_of_the_outputs(num_gps):
    """Points in the GPs or in the outputs have mean A m + b and covariance A diag(v) A^T."""
    likelihood, mixing = make("softmax", 3), Mixing(num_gps, 3).double()
    with torch.no_grad():
        mixing.weight.copy_(0.8 * torch.randn(3, num_gps))
        mixing.bias.copy_(torch.randn(3))
    marginals = Marginals(torch.randn(B, num_gps).double(), 0.1 + torch.rand(B, num_gps).double())
    dims = GPHead(num_gps, 3).normal_points.shape[1]
    assert dims == (3 if num_gps == 9 else num_gps)
    latents = latent_points(likelihood, mixing, marginals, normal_points(4096, dims))
    mean = marginals.mean @ mixing.weight.T + mixing.bias
    covariance = torch.einsum("cj,dj,bj->bcd", mixing.weight, mixing.weight, marginals.variance)
    close(latents.average(latents.points), mean)
    apart = latents.points - mean
    close(latents.average((apart.unsqueeze(-1) * apart.unsqueeze(-2)).flatten(-2)).unflatten(-1, (3, 3)), covariance)
    draws = torch.distributions.MultivariateNormal(mean, covariance).sample((200_000,))
    close(predictive_probabilities(likelihood, latents), draws.softmax(-1).mean(0), "sampling")


def test_any_function_to_a_distribution_is_a_likelihood():
    """Two outputs as mean and log noise of one target; a categorical distribution is the softmax."""
    mixing, _ = mixed()
    y = torch.randn(B, dtype=torch.float64)
    f = torch.randn(7, B, J, dtype=torch.float64)
    heteroscedastic = build_likelihood(lambda g: td.Normal(g[..., 0], g[..., 1].exp()), 2)
    g = mixing(f)
    expected = td.Normal(g[..., 0], g[..., 1].exp()).log_prob(y).mean(0)
    close(expectation_over_samples(heteroscedastic, mixing, f, y), expected)

    categorical = build_likelihood(lambda g: td.Categorical(logits=g), 2)
    assert categorical.is_classifier
    labels = torch.randint(2, (B,))
    softmax = expectation_over_samples(make("softmax"), mixing, f, labels)
    close(expectation_over_samples(categorical, mixing, f, labels), softmax)


def test_normal_points_have_the_moments_of_a_normal():
    points = normal_points(128, 50)
    close(points.mean(0), torch.zeros(50))
    close(points.T @ points / len(points), torch.eye(50))
    few = normal_points(16, 50)
    close(few.square().mean(0), torch.ones(50))


def test_dense_references_agree_with_each_other():
    """The reference for M fits its definition at one point."""
    row = dense.axis_rows(torch.tensor([2.25], dtype=torch.float64), 6)[0]
    expected = [0.0] + [dense.keys(torch.tensor(2.25 - i, dtype=torch.float64)).item() for i in range(1, 5)] + [0.0]
    close(row, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("name", ["poisson", "negative_binomial"])
def test_counts_start_at_the_logarithm_of_their_mean(name):
    likelihood = build_likelihood(name, 2).double()
    y = torch.tensor([[0.0, 40_000.0], [0.0, 60_000.0], [0.0, 10.0]])
    close(likelihood.start_outputs(y, None).exp(), torch.tensor([0.5, 100_010.5], dtype=torch.float64) / 3)
    weight = torch.tensor([1.0, 3.0, 0.0])
    close(likelihood.start_outputs(y, weight).exp(), torch.tensor([0.5, 220_000.5], dtype=torch.float64) / 4)
    assert build_likelihood(name, 1).start_outputs(y[:, 1], None).shape == (1,)


@pytest.mark.parametrize("name", ["softmax", "bernoulli", "gaussian", "student_t"])
def test_other_targets_start_anywhere(name):
    assert build_likelihood(name, 2).start_outputs(torch.zeros(3), None) is None


@pytest.mark.parametrize("name", ["gaussian", "student_t"])
def test_real_targets_take_over_a_noise(name):
    likelihood = build_likelihood(name, 2).double()
    variance = torch.tensor([0.37, 4.1], dtype=torch.float64)
    likelihood.set_noise(variance)
    close(likelihood.predictive_terms(torch.zeros(3, 2, dtype=torch.float64))[1], variance.expand(3, 2))
