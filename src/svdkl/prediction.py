"""Predictive distributions p(y | x) = E_q p(y | g(x)), by fixed points: the same answer for any split of the rows.

The expectation over q(g) is a weighted sum over a few latent points of each row: Gauss-Hermite nodes where the
likelihood splits into terms of one latent, quasi-random points otherwise. Mean, variance, probabilities, entropy and
density are all read off the same points.
"""

from typing import NamedTuple

import torch

from svdkl.inducing.marginal import Marginals
from svdkl.likelihoods import Likelihood
from svdkl.mixing import Mixing
from svdkl.quadrature import hermite_points, spread, standard_deviation
from svdkl.shapes import Float, Tensor


class LatentPoints(NamedTuple):
    """Points and weights that stand for q(latent) of each row."""

    points: Float[Tensor, "K B P"]
    weights: Float[Tensor, "K"]

    def average(self, values: Float[Tensor, "K ..."]) -> Tensor:
        """Weighted mean over the points. Not by einsum, which would bring rows that are last in memory to the front."""
        return (self.weights.reshape(-1, *(1 for _ in values.shape[1:])) * values).sum(0)


class Prediction(NamedTuple):
    """Mean and variance of the target; the variance by its two sources."""

    mean: Float[Tensor, "B C"]
    variance: Float[Tensor, "B C"]
    noise_variance: Float[Tensor, "B C"]  # E Var(y | g): what more data would not remove
    model_variance: Float[Tensor, "B C"]  # Var E(y | g): what it would


def latent_points(
    likelihood: Likelihood, mixing: Mixing, marginals: Marginals, normal: Float[Tensor, "T J"]
) -> LatentPoints:
    """Points for q(g), or for the contrasts of g that the likelihood depends on."""
    mean, variance = marginals
    contrasts = likelihood.contrasts(mean)
    if contrasts is not None:
        nodes, weights = hermite_points(mean, count=80)  # a sigmoid may be steep beside the latent's spread
        return LatentPoints(spread(*mixing.gaussian(mean, variance, contrasts), nodes), weights)
    # g^(t) = A (mean + sd * eps_t) + b for all t by one product: the points are folded into A. Rows are last in memory,
    # so that what follows goes along many rows instead of a few classes.
    num_points = normal.shape[0]
    folded = (normal.to(mean.dtype).unsqueeze(1) * mixing.weight).flatten(0, 1)
    deviation = (folded @ standard_deviation(variance).T).unflatten(0, (num_points, -1))
    points = (deviation + mixing(mean).T).mT
    return LatentPoints(points, mean.new_full((num_points,), 1 / num_points))


def predictive_probabilities(likelihood: Likelihood, latents: LatentPoints) -> Float[Tensor, "B C"]:
    """p(y = c | x) = E p(y = c | g)."""
    return latents.average(likelihood.predictive_mean(latents.points))


def predictive_moments(likelihood: Likelihood, latents: LatentPoints) -> Prediction:
    """Mean and variance of y: Var y = E Var(y | g) + Var E(y | g)."""
    means, variances = likelihood.predictive_terms(latents.points)
    mean = latents.average(means)
    noise = latents.average(variances)
    model = latents.average((means - mean).square())
    return Prediction(mean, noise + model, noise, model)


def predictive_log_density(
    likelihood: Likelihood, mixing: Mixing, marginals: Marginals, normal: Float[Tensor, "T J"], y: Tensor
) -> Float[Tensor, "B"]:
    """Log p(y_i | x_i); for several targets the sum of each one's own."""
    contrasts = likelihood.contrasts(marginals.mean)
    if contrasts is not None:
        return likelihood.log_marginal(*mixing.gaussian(*marginals, contrasts), y)
    latents = latent_points(likelihood, mixing, marginals, normal)
    terms = likelihood.log_prob(latents.points, y)
    return torch.logsumexp(terms + latents.weights.log()[:, None, None], 0).sum(-1)
