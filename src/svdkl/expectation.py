"""E_q log p(y_i | g_i): the likelihood term of the objective, one number a row.

Two estimators, both unbiased. `joint`, the paper's: a draw of u is interpolated for the whole minibatch, so the rows of
a draw share their noise. `marginal`: only the marginals q(f_ij) matter to a sum over rows, so the expectation is taken
row by row: exactly where the likelihood has a closed form, by Gauss-Hermite where each of its terms sees one Gaussian
latent, and otherwise by samples with noise of their own for each f_ij, whose errors average out over the minibatch.
"""

from typing import NamedTuple

import torch

from svdkl.inducing.marginal import Marginals
from svdkl.likelihoods import Likelihood
from svdkl.mixing import Mixing
from svdkl.quadrature import standard_deviation, standard_normal
from svdkl.shapes import Float, Tensor


class Part(NamedTuple):
    """Where rows stand in a minibatch of which others hold the rest, so that all draw one noise and use their own."""

    start: int
    total: int


def expectation_over_samples(
    likelihood: Likelihood, mixing: Mixing, f: Float[Tensor, "T B J"], y: Tensor
) -> Float[Tensor, "B"]:
    """(1/T) sum_t log p(y_i | A f_i^(t) + b)."""
    latent = mixing(f)
    contrasts = likelihood.contrasts(latent)
    if contrasts is not None:
        latent = latent @ contrasts.T
    return likelihood.log_prob(latent, y).sum(-1).mean(0)


def expectation_over_marginals(
    likelihood: Likelihood,
    mixing: Mixing,
    marginals: Marginals,
    y: Tensor,
    num_samples: int,
    generator: torch.Generator | None = None,
    part: Part | None = None,
) -> Float[Tensor, "B"]:
    """E log p(y_i | A f_i + b) under independent Gaussians f_ij: by closed form or quadrature where possible."""
    mean, variance = marginals
    contrasts = likelihood.contrasts(mean)
    if contrasts is not None:
        return likelihood.expected_log_prob(*mixing.gaussian(mean, variance, contrasts), y)
    return expectation_over_samples(likelihood, mixing, sample_marginals(marginals, num_samples, generator, part), y)


def sample_marginals(
    marginals: Marginals, num_samples: int, generator: torch.Generator | None = None, part: Part | None = None
) -> Float[Tensor, "T B J"]:
    """f_ij = mean_ij + sqrt(variance_ij) eps_ij."""
    mean, variance = marginals
    num_rows, num_gps = mean.shape
    start, total = part or Part(0, num_rows)
    noise = standard_normal(num_samples, total, num_gps, like=mean, generator=generator)
    # With one sample, shapes agree, and no gradient is summed over samples.
    return mean.unsqueeze(0) + standard_deviation(variance).unsqueeze(0) * noise[:, start : start + num_rows]
