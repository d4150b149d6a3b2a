"""Likelihoods of real targets."""

import math

import torch
from torch import nn

from svdkl.likelihoods.likelihood import Likelihood, require
from svdkl.shapes import Float, Tensor


class _Reals(Likelihood):
    """The common part of likelihoods of real targets."""

    is_real = True

    def check_range(self, y: Tensor) -> None:
        """Refuse targets that are not finite."""
        require(y.isfinite(), y, "finite targets")


class Gaussian(_Reals):
    """Targets y_c ~ N(g_c, noise_c^2), with one noise for each output."""

    def __init__(self, num_outputs: int, noise: float = 0.3) -> None:
        super().__init__(num_outputs)
        self.log_noise = nn.Parameter(torch.full((num_outputs,), math.log(noise)))

    def log_prob(self, latent: Float[Tensor, "*T B P"], y: Tensor) -> Float[Tensor, "*T B P_y"]:
        """Return log N(y; g, noise^2) for each output."""
        z = (y.to(latent.dtype) - latent) * torch.exp(-self.log_noise)
        return -0.5 * z.square() - self.log_noise - 0.5 * math.log(2 * math.pi)

    def expected_log_prob(
        self, mean: Float[Tensor, "B P"], variance: Float[Tensor, "B P"], y: Tensor
    ) -> Float[Tensor, "B"]:
        """Return E log N(y; g, noise^2) = log N(y; E g, noise^2) - Var g / (2 noise^2)."""
        return (self.log_prob(mean, y) - 0.5 * variance * torch.exp(-2 * self.log_noise)).sum(-1)

    def log_marginal(self, mean: Float[Tensor, "B P"], variance: Float[Tensor, "B P"], y: Tensor) -> Float[Tensor, "B"]:
        """Return log N(y; E g, Var g + noise^2)."""
        total = variance + torch.exp(2 * self.log_noise)
        return (-0.5 * (y.to(mean.dtype) - mean).square() / total - 0.5 * (2 * math.pi * total).log()).sum(-1)

    def predictive_terms(self, latent: Float[Tensor, "*T B P"]) -> tuple[Tensor, Tensor]:
        """Return mean g and variance noise^2."""
        return latent, torch.exp(2 * self.log_noise).to(latent.dtype).expand_as(latent)

    @torch.no_grad()
    def set_noise(self, variance: Float[Tensor, "C"]) -> None:
        """Set noise^2 to this variance."""
        self.log_noise.copy_(0.5 * variance.log())


class StudentT(_Reals):
    """Targets y_c = g_c + scale_c * t, with Student's t of more than 2 degrees of freedom: robust against outliers."""

    def __init__(self, num_outputs: int, scale: float = 0.3, degrees: float = 6.0) -> None:
        super().__init__(num_outputs)
        self.log_scale = nn.Parameter(torch.full((num_outputs,), math.log(scale)))
        self.log_excess = nn.Parameter(torch.full((num_outputs,), math.log(degrees - 2)))

    @property
    def degrees(self) -> Float[Tensor, "C"]:
        """Degrees of freedom, above 2, so that the variance exists."""
        return 2 + self.log_excess.exp()

    def log_prob(self, latent: Float[Tensor, "*T B P"], y: Tensor) -> Float[Tensor, "*T B P_y"]:
        """Return the log density of Student's t for each output."""
        nu = self.degrees
        z = (y.to(latent.dtype) - latent) * torch.exp(-self.log_scale)
        constant = torch.lgamma((nu + 1) / 2) - torch.lgamma(nu / 2) - 0.5 * (nu * math.pi).log() - self.log_scale
        return constant - (nu + 1) / 2 * torch.log1p(z.square() / nu)

    def predictive_terms(self, latent: Float[Tensor, "*T B P"]) -> tuple[Tensor, Tensor]:
        """Return mean g and variance scale^2 nu / (nu - 2)."""
        variance = torch.exp(2 * self.log_scale - self.log_excess) * self.degrees
        return latent, variance.to(latent.dtype).expand_as(latent)

    @torch.no_grad()
    def set_noise(self, variance: Float[Tensor, "C"]) -> None:
        """Set scale^2 nu / (nu - 2) to this variance, and leave the degrees of freedom as they are."""
        self.log_scale.copy_(0.5 * (variance.log() + self.log_excess - self.degrees.log()))
