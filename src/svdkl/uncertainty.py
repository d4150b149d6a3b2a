"""Where the uncertainty of a prediction comes from."""

from typing import NamedTuple

import torch

from svdkl.inducing.marginal import Marginals
from svdkl.likelihoods import Likelihood
from svdkl.mixing import Mixing
from svdkl.prediction import LatentPoints, predictive_moments
from svdkl.shapes import Float, Tensor


class Uncertainty(NamedTuple):
    """Uncertainty of each row: ``total = aleatoric + epistemic``.

    For classes these are entropies in nats, (B,): of the predictive probabilities, the expected one given g, and the
    mutual information between label and g. For other targets they are variances, (B, C).
    """

    total: Float[Tensor, "B ..."]
    aleatoric: Float[Tensor, "B ..."]  # the data's own: noise, overlapping classes
    epistemic: Float[Tensor, "B ..."]  # the model's: what more data like this row would remove
    latent_variance: Float[Tensor, "B C"]  # Var_q g_c
    ood_score: Float[Tensor, "B"]  # low for rows like those of training, 1 where nothing is known of such rows


def uncertainty(
    likelihood: Likelihood,
    mixing: Mixing,
    latents: LatentPoints,
    posterior: Marginals,
    prior: Marginals,
    share_left: Float[Tensor, "B J"],
    strangeness: Float[Tensor, "B"],
) -> Uncertainty:
    """Split the uncertainty of a prediction.

    A row is out of distribution by its features one by one or by all of them together. The first is the share of the
    prior variance of g that the posterior has left, summed over the outputs: GPs that no output listens to do not
    count. The score joins it with the second, as chances of which one is enough.

    Parameters
    ----------
    share_left
        What was left of each GP's variance before its prior was centred on what it had learned, 1 if it was not.
    strangeness
        How unlike the rows of training the features are together, from 0 to 1.
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
