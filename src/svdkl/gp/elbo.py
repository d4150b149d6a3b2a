"""The evidence lower bound per datum, and its likelihood term E_q log p(y_i | g_i), one number a row.

Two estimators of that term are unbiased. `joint`, the paper's, interpolates a draw of u for the whole minibatch, so the
rows of a draw share their noise. `marginal` uses that only the marginals q(f_ij) matter to a sum over rows: it takes
the expectation row by row, exactly where the likelihood has a closed form, by Gauss-Hermite where each term of the
likelihood sees one Gaussian latent, and otherwise by samples with independent noise for each f_ij, whose errors average
out over the minibatch.
"""

from typing import NamedTuple

import torch

from svdkl.gp.marginals import Marginals
from svdkl.gp.mixing import Mixing
from svdkl.gp.quadrature import standard_deviation, standard_normal
from svdkl.likelihoods import Likelihood
from svdkl.shapes import Float, Tensor


class Part(NamedTuple):
    """The place of these rows in a minibatch that several workers share: all draw one noise and use their own rows'."""

    start: int
    total: int


def expectation_over_samples(
    likelihood: Likelihood, mixing: Mixing, f: Float[Tensor, "T B J"], y: Tensor
) -> Float[Tensor, "B"]:
    """Return (1/T) sum_t log p(y_i | A f_i^(t) + b) for each row i and T samples of f."""
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
    """Return E log p(y_i | A f_i + b) for independent Gaussians f_ij: by closed form or quadrature where possible.

    Where there is no quadrature, we average over ``num_samples`` draws of the ``part`` of the minibatch.
    """
    mean, variance = marginals
    contrasts = likelihood.contrasts(mean)
    if contrasts is not None:
        return likelihood.expected_log_prob(*mixing.gaussian(mean, variance, contrasts), y)
    return expectation_over_samples(likelihood, mixing, sample_marginals(marginals, num_samples, generator, part), y)


def sample_marginals(
    marginals: Marginals, num_samples: int, generator: torch.Generator | None = None, part: Part | None = None
) -> Float[Tensor, "T B J"]:
    """Draw T samples f_ij = mean_ij + sqrt(variance_ij) eps_ij; ``part`` names the rows' place in the minibatch."""
    mean, variance = marginals
    num_rows, num_gps = mean.shape
    start, total = part or Part(0, num_rows)
    noise = standard_normal(num_samples, total, num_gps, like=mean, generator=generator)
    # We unsqueeze so that with one sample the shapes agree and autograd sums no gradient over samples.
    return mean.unsqueeze(0) + standard_deviation(variance).unsqueeze(0) * noise[:, start : start + num_rows]


class ELBO(NamedTuple):
    """The bound and its two terms, each per datum: ``value = expected_log_likelihood - kl``."""

    value: Float[Tensor, ""]
    expected_log_likelihood: Float[Tensor, ""]
    kl: Float[Tensor, ""]


def evidence_lower_bound(
    expected_log_likelihood: Float[Tensor, "B"],
    kl: Float[Tensor, "J"],
    num_data: int | float,
    sample_weight: Float[Tensor, "B"] | None = None,
) -> ELBO:
    """Estimate the bound per datum from the terms of a minibatch.

    Parameters
    ----------
    expected_log_likelihood, kl
        E log p(y_i | g_i) of each row, and the KL of each GP.
    num_data
        N, the rows of the training data.
    sample_weight
        A weight w_i counts row i w_i times. We divide by the number of rows, not by the weights' sum, so that the mean
        over minibatches is the bound of the whole data.
    """
    if sample_weight is not None:
        expected_log_likelihood = sample_weight * expected_log_likelihood
    # L / N = (1 / B) Σᵢ wᵢ E_q[log p(yᵢ | gᵢ)]  −  (1 / N) Σⱼ KL[q(uⱼ) ‖ p(uⱼ)]
    likelihood_term = expected_log_likelihood.mean()
    kl_term = (kl.sum() / num_data).to(likelihood_term.dtype)
    return ELBO(likelihood_term - kl_term, likelihood_term, kl_term)


def check_num_data(num_data: int | float) -> None:
    """Refuse a number of training rows N that is not finite and positive."""
    if not num_data > 0 or num_data == float("inf"):
        raise ValueError(f"Expected num_data, the number of training rows, to be finite and above 0, got {num_data}.")


def check_sample_weight(sample_weight: Tensor, num_rows: int) -> None:
    """Refuse weights that are not one finite number of at least 0 for each row; traced code skips the values."""
    if sample_weight.shape != (num_rows,):
        raise ValueError(f"Expected sample weights of shape ({num_rows},), got {tuple(sample_weight.shape)}.")
    if not torch.compiler.is_compiling() and not bool((torch.isfinite(sample_weight) & (sample_weight >= 0)).all()):
        raise ValueError("Expected finite sample weights of at least 0, got a negative, NaN or infinite one.")
