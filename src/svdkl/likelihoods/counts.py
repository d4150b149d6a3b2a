"""Likelihoods of counts, with the mean exp(g)."""

import math

import torch
from torch import nn

from svdkl.likelihoods.likelihood import Likelihood, real_targets, require
from svdkl.shapes import Float, Tensor


class _Counts(Likelihood):
    """What all likelihoods of counts with the mean exp(g) share."""

    def targets(self, y: Tensor, num_rows: int) -> Tensor:
        """Counts (B, C)."""
        return real_targets(y, num_rows, self.num_outputs)

    def check_range(self, y: Tensor) -> None:
        """Targets are counts."""
        require((y >= 0) & (y == y.round()) & y.isfinite(), y, "counts 0, 1, 2, ...")

    def start_outputs(self, y: Tensor, weight: Float[Tensor, "B"] | None) -> Float[Tensor, "C"] | None:
        """The logarithm of the mean count: steps of the size of a rate would take long to a mean of thousands.

        Half a count is put beside those that there are, for targets that are zero everywhere.
        """
        counts = self.targets(y, len(y)).double()
        weight = counts.new_ones(len(counts)) if weight is None else weight.double()
        return (((weight @ counts) + 0.5) / weight.sum()).log()


class Poisson(_Counts):
    """y_c ~ Poisson(exp(g_c))."""

    def log_prob(self, latent: Float[Tensor, "*T B P"], y: Tensor) -> Float[Tensor, "*T B P_y"]:
        """Y g - exp(g) - log y!."""
        y = y.to(latent.dtype)
        return y * latent - latent.exp() - torch.lgamma(y + 1)

    def expected_log_prob(
        self, mean: Float[Tensor, "B P"], variance: Float[Tensor, "B P"], y: Tensor
    ) -> Float[Tensor, "B"]:
        """In closed form, since E exp(g) = exp(E g + Var g / 2)."""
        y = y.to(mean.dtype)
        return (y * mean - (mean + variance / 2).exp() - torch.lgamma(y + 1)).sum(-1)

    def predictive_terms(self, latent: Float[Tensor, "*T B P"]) -> tuple[Tensor, Tensor]:
        """Mean and variance exp(g)."""
        rate = latent.exp()
        return rate, rate


class NegativeBinomial(_Counts):
    """Counts of mean exp(g_c) and variance exp(g_c) + exp(2 g_c) / r_c: Poisson with a spread of rates."""

    def __init__(self, num_outputs: int, total_count: float = 5.0) -> None:
        super().__init__(num_outputs)
        self.log_total_count = nn.Parameter(torch.full((num_outputs,), math.log(total_count)))

    def log_prob(self, latent: Float[Tensor, "*T B P"], y: Tensor) -> Float[Tensor, "*T B P_y"]:
        """Log of the negative binomial, by the log odds g - log r."""
        y = y.to(latent.dtype)
        r = self.log_total_count.exp()
        odds = latent - self.log_total_count
        constant = torch.lgamma(y + r) - torch.lgamma(r) - torch.lgamma(y + 1)
        return constant + y * odds - (y + r) * torch.nn.functional.softplus(odds)

    def predictive_terms(self, latent: Float[Tensor, "*T B P"]) -> tuple[Tensor, Tensor]:
        """Mean exp(g) and variance."""
        rate = latent.exp()
        return rate, rate + rate.square() * torch.exp(-self.log_total_count)
