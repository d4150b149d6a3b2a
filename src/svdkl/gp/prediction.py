"""Predictive distributions p(y | x) = E_q p(y | g(x)), and where their uncertainty comes from.

The expectation over q(g) is a weighted sum over a few fixed latent points of each row: Gauss-Hermite nodes where the
likelihood splits into terms of one latent, quasi-random points otherwise. Mean, variance, probabilities, entropy and
density all come from the same points, and no row's answer depends on the other rows of a batch.

Throughout, ``likelihood`` is p(y | g), ``mixing`` the layer g = A f + b, and ``marginals`` are the Gaussians q(f_ij).
"""

from typing import NamedTuple

import torch

from svdkl.gp.linalg.small import small_cholesky
from svdkl.gp.marginals import Marginals
from svdkl.gp.mixing import Mixing
from svdkl.gp.quadrature import hermite_points, spread, standard_deviation
from svdkl.likelihoods import Likelihood
from svdkl.shapes import Float, Tensor


class LatentPoints(NamedTuple):
    """Points and weights that stand for q(latent) of each row."""

    points: Float[Tensor, "K B P"]
    weights: Float[Tensor, "K"]

    def average(self, values: Float[Tensor, "K B *P"]) -> Float[Tensor, "B *P"]:
        """Return the weighted mean over the points, in one pass over values whose rows are last in memory."""
        last = values.movedim(1, -1)
        return (self.weights @ last.flatten(1)).unflatten(0, last.shape[1:]).movedim(-1, 0)


class Prediction(NamedTuple):
    """Mean and variance of the target, and the two sources of the variance."""

    mean: Float[Tensor, "B C"]
    variance: Float[Tensor, "B C"]
    noise_variance: Float[Tensor, "B C"]  # E Var(y | g), which more data would not remove
    model_variance: Float[Tensor, "B C"]  # Var E(y | g), which more data would remove


def latent_points(
    likelihood: Likelihood, mixing: Mixing, marginals: Marginals, normal: Float[Tensor, "T _"]
) -> LatentPoints:
    """Return points for q(g), or for the contrasts of g that the likelihood depends on.

    ``normal`` are points that stand for N(0, I) of C or J dimensions. Quadrature does not read them.
    """
    mean, variance = marginals
    contrasts = likelihood.contrasts(mean)
    if contrasts is not None:
        nodes, weights = hermite_points(mean, count=80)  # 80: a sigmoid may be steep beside the latent's spread
        return LatentPoints(spread(*mixing.gaussian(mean, variance, contrasts), nodes), weights)
    # Rows are last in memory, so that loops go along many rows instead of a few classes.
    num_points, num_dims = normal.shape
    normal, centre = normal.to(mean.dtype), mixing(mean).T
    if num_dims < mean.shape[1]:  # g^(t) = A mean + b + L eps_t, L L^T = A diag(v) A^T
        roots = small_cholesky(mixing.covariance(variance))
        deviation = normal @ roots.flatten(1)
    else:  # g^(t) = A (mean + sd * eps_t) + b for all t by one product: the points are folded into A
        deviation = (normal.unsqueeze(1) * mixing.weight).flatten(0, 1) @ standard_deviation(variance).T
    points = (deviation.view(num_points, *centre.shape) + centre).mT
    return LatentPoints(points, mean.new_full((num_points,), 1 / num_points))


def predictive_probabilities(likelihood: Likelihood, latents: LatentPoints) -> Float[Tensor, "B C"]:
    """Return p(y = c | x) = E p(y = c | g) of each row."""
    return latents.average(likelihood.predictive_mean(latents.points))


def predictive_moments(likelihood: Likelihood, latents: LatentPoints) -> Prediction:
    """Return mean and variance of y, where Var y = E Var(y | g) + Var E(y | g)."""
    means, variances = likelihood.predictive_terms(latents.points)
    mean = latents.average(means)
    noise = latents.average(variances)
    model = latents.average((means - mean).square())
    return Prediction(mean, noise + model, noise, model)


def predictive_log_density(
    likelihood: Likelihood, mixing: Mixing, marginals: Marginals, normal: Float[Tensor, "T _"], y: Tensor
) -> Float[Tensor, "B"]:
    """Return log p(y_i | x_i), summed over the targets of a row; :func:`latent_points` explains ``normal``."""
    contrasts = likelihood.contrasts(marginals.mean)
    if contrasts is not None:
        return likelihood.log_marginal(*mixing.gaussian(*marginals, contrasts), y)
    latents = latent_points(likelihood, mixing, marginals, normal)
    terms = likelihood.log_prob(latents.points, y)
    return torch.logsumexp(terms + latents.weights.log()[:, None, None], 0).sum(-1)


class Uncertainty(NamedTuple):
    """Uncertainty of each row: ``total = aleatoric + epistemic``.

    For classes these are in nats, (B,): the entropy of the predictive probabilities, its expectation given g, and the
    mutual information between label and g. For other targets they are variances, (B, C).
    """

    total: Float[Tensor, "B ..."]
    aleatoric: Float[Tensor, "B ..."]  # from the data: noise, overlapping classes
    epistemic: Float[Tensor, "B ..."]  # from the model: more data like this row would remove it
    latent_variance: Float[Tensor, "B C"]  # Var_q g_c
    ood_score: Float[Tensor, "B"]  # low for rows like the training rows, 1 where we know nothing of such rows


def uncertainty(
    likelihood: Likelihood,
    mixing: Mixing,
    latents: LatentPoints,
    posterior: Marginals,
    prior: Marginals,
    share_left: Float[Tensor, "B J"],
    strangeness: Float[Tensor, "B"],
) -> Uncertainty:
    """Split the uncertainty of a prediction into its sources, and score how unlike the training rows each row is.

    A row's features may be strange one by one or together. The first shows in the share of g's prior variance that the
    posterior leaves, summed over the outputs: GPs that no output listens to do not count. The score joins it with the
    second, ``strangeness``, as two chances of which one is enough: a + s (1 - a).

    Parameters
    ----------
    latents
        The points of q(g).
    posterior, prior
        Marginals of f under q and under the prior.
    share_left
        The share of each GP's variance that was left before its prior was centred on what it had learned, else 1.
    strangeness
        How unlike the training rows' features the row's features are together, from 0 to 1.
    """
    _, latent_variance = mixing.gaussian(posterior.mean, posterior.variance)
    _, prior_variance = mixing.gaussian(prior.mean, prior.variance)
    _, variance_left = mixing.gaussian(posterior.mean, share_left * posterior.variance)
    tiny = torch.finfo(prior_variance.dtype).tiny
    one_by_one = variance_left.sum(-1) / prior_variance.sum(-1).clamp_min(tiny)
    ood_score = one_by_one + strangeness * (1 - one_by_one).clamp_min(0)

    if likelihood.is_classifier:
        probabilities, entropies = likelihood.predictive_terms(latents.points)
        aleatoric = latents.average(entropies)
        mean = latents.average(probabilities)
        total = likelihood.entropy(mean)
        # Jensen gives epistemic >= 0; rounding may not.
        epistemic = (total - aleatoric).clamp_min(0)
        return Uncertainty(total, aleatoric, epistemic, latent_variance, ood_score)

    moments = predictive_moments(likelihood, latents)
    return Uncertainty(moments.variance, moments.noise_variance, moments.model_variance, latent_variance, ood_score)
