"""Likelihoods of counts, whose mean is exp(g)."""

import math

import torch
from torch import nn

from svdkl.likelihoods.likelihood import Likelihood, require
from svdkl.shapes import Float, Tensor


class _Counts(Likelihood):
    """The common part of likelihoods of counts with the mean exp(g)."""

    def check_range(self, y: Tensor) -> None:
        """Refuse targets other than 0, 1, 2, ..."""
        require((y >= 0) & (y == y.round()) & y.isfinite(), y, "counts 0, 1, 2, ...")

    def start_outputs(self, y: Tensor, weight: Float[Tensor, "B"] | None) -> Float[Tensor, "C"] | None:
        """Return the log of the mean count: a network that starts at 0 would take long to reach a mean of thousands.

        We add half a count, for targets that are zero everywhere.
        """
        counts = self.targets(y, len(y)).double()
        weight = counts.new_ones(len(counts)) if weight is None else weight.double()
        return (((weight @ counts) + 0.5) / weight.sum()).log()


class Poisson(_Counts):
    """Counts y_c ~ Poisson(exp(g_c))."""

    def log_prob(self, latent: Float[Tensor, "*T B P"], y: Tensor) -> Float[Tensor, "*T B P_y"]:
        """Return y g - exp(g) - log y! for each output."""
        y = y.to(latent.dtype)
        return y * latent - latent.exp() - torch.lgamma(y + 1)

    def expected_log_prob(
        self, mean: Float[Tensor, "B P"], variance: Float[Tensor, "B P"], y: Tensor
    ) -> Float[Tensor, "B"]:
        """Return E log p(y | g) in closed form, since E exp(g) = exp(E g + Var g / 2)."""
        y = y.to(mean.dtype)
        return (y * mean - (mean + variance / 2).exp() - torch.lgamma(y + 1)).sum(-1)

    def predictive_terms(self, latent: Float[Tensor, "*T B P"]) -> tuple[Tensor, Tensor]:
        """Return mean and variance, which are both exp(g)."""
        rate = latent.exp()
        return rate, rate


class NegativeBinomial(_Counts):
    """Counts with mean exp(g_c) and variance exp(g_c) + exp(2 g_c) / r_c: Poisson counts with a spread of rates."""

    def __init__(self, num_outputs: int, total_count: float = 5.0) -> None:
        super().__init__(num_outputs)
        self.log_total_count = nn.Parameter(torch.full((num_outputs,), math.log(total_count)))

    def log_prob(self, latent: Float[Tensor, "*T B P"], y: Tensor) -> Float[Tensor, "*T B P_y"]:
        """Return the log of the negative binomial with log odds g - log r."""
        y = y.to(latent.dtype)
        r = self.log_total_count.exp()
        odds = latent - self.log_total_count
        constant = torch.lgamma(y + r) - torch.lgamma(r) - torch.lgamma(y + 1)
        return constant + y * odds - (y + r) * torch.nn.functional.softplus(odds)

    def predictive_terms(self, latent: Float[Tensor, "*T B P"]) -> tuple[Tensor, Tensor]:
        """Return mean exp(g) and variance exp(g) + exp(2 g) / r."""
        rate = latent.exp()
        return rate, rate + rate.square() * torch.exp(-self.log_total_count)
