"""The evidence lower bound, per datum."""

from typing import NamedTuple

import torch

from svdkl.shapes import Float, Tensor


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
    """Put the terms of a minibatch together.

    A weight w_i counts a row w_i times. Weighted terms are divided by the number of rows, not by the weights' sum, so
    that the mean over minibatches is the bound of the whole data.
    """
    if sample_weight is not None:
        expected_log_likelihood = sample_weight * expected_log_likelihood
    # L / N = (1 / B) Σᵢ wᵢ E_q[log p(yᵢ | gᵢ)]  −  (1 / N) Σⱼ KL[q(uⱼ) ‖ p(uⱼ)]
    likelihood_term = expected_log_likelihood.mean()
    kl_term = (kl.sum() / num_data).to(likelihood_term.dtype)
    return ELBO(likelihood_term - kl_term, likelihood_term, kl_term)


def check_num_data(num_data: int | float) -> None:
    """N has to be a positive number."""
    if not num_data > 0 or num_data == float("inf"):
        raise ValueError(f"Expected num_data, the number of training rows, to be finite and above 0, got {num_data}.")


def check_sample_weight(sample_weight: Tensor, num_rows: int) -> None:
    """One finite weight that is not negative for each row; the values are not looked at in traced code."""
    if sample_weight.shape != (num_rows,):
        raise ValueError(f"Expected sample weights of shape ({num_rows},), got {tuple(sample_weight.shape)}.")
    if not torch.compiler.is_compiling() and not bool((torch.isfinite(sample_weight) & (sample_weight >= 0)).all()):
        raise ValueError("Expected finite sample weights of at least 0, got a negative, NaN or infinite one.")
