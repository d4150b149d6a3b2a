"""Gaussian integrals by fixed points and weights, which are deterministic and alike for every row."""

import math
from collections.abc import Callable

import numpy as np
import torch

from svdkl.shapes import Float, Tensor

# Rules are constants, so that traced code need not compute them. Twenty nodes are plenty for log likelihoods, which are
# smooth in the latent; densities may be narrower than the latent's spread and get eighty.
_RULES = {count: [array.tolist() for array in np.polynomial.hermite_e.hermegauss(count)] for count in (20, 80)}


def hermite_points(like: Tensor, count: int = 20) -> tuple[Float[Tensor, "K"], Float[Tensor, "K"]]:
    """Return nodes and weights with sum_k w_k phi(x_k) = E phi(x), x ~ N(0, 1), for phi of degree up to 2 K - 1."""
    nodes, weights = _RULES[count]
    return like.new_tensor(nodes), like.new_tensor(weights) / math.sqrt(2 * math.pi)


def spread(
    mean: Float[Tensor, "B P"], variance: Float[Tensor, "B P"], nodes: Float[Tensor, "K"]
) -> Float[Tensor, "K B P"]:
    """Move the nodes of N(0, 1) to each of these Gaussians."""
    return mean + standard_deviation(variance) * nodes[:, None, None]


def standard_normal(*shape: int, like: Tensor, generator: torch.Generator | None) -> Tensor:
    """Draw N(0, 1) noise of a tensor's type, on the generator's device, and move it to the tensor's."""
    device = like.device if generator is None else generator.device
    return torch.randn(*shape, dtype=like.dtype, device=device, generator=generator).to(like.device)


def standard_deviation(variance: Tensor) -> Tensor:
    """Take the square root, with a finite slope at zero."""
    return variance.clamp_min(torch.finfo(variance.dtype).tiny).sqrt()


def expectation_1d(
    function: Callable[[Tensor], Tensor], mean: Float[Tensor, "B P"], variance: Float[Tensor, "B P"]
) -> Tensor:
    """Return E function(latent) by Gauss-Hermite, for a function that acts on each latent separately."""
    nodes, weights = hermite_points(mean)
    return torch.einsum("k,k...->...", weights, function(spread(mean, variance, nodes)))


def log_expectation_1d(
    log_function: Callable[[Tensor], Tensor], mean: Float[Tensor, "B P"], variance: Float[Tensor, "B P"]
) -> Tensor:
    """Return log E exp(log_function(latent)) by Gauss-Hermite, for a function that acts on each latent separately."""
    nodes, weights = hermite_points(mean, count=80)
    values = log_function(spread(mean, variance, nodes))
    return torch.logsumexp(values + weights.clamp_min(torch.finfo(mean.dtype).tiny).log()[:, None, None], 0)


def normal_points(num_points: int, num_dims: int) -> Float[Tensor, "T J"]:
    """Return points of equal weight that stand for N(0, I): scrambled Sobol, antithetic, with unit covariance.

    The points come in pairs +-x, so all odd moments are exact; with at least 2 J points the second moments are exact
    too. All rows scale the same points, so no row depends on another.
    """
    half = num_points // 2
    uniform = torch.quasirandom.SobolEngine(num_dims, scramble=True, seed=0).draw(half, dtype=torch.float64)
    base = math.sqrt(2) * torch.erfinv((2 * uniform - 1).clamp(-1 + 1e-9, 1 - 1e-9))
    if half >= num_dims:
        values, vectors = torch.linalg.eigh(base.T @ base / half)
        base = base @ (vectors * values.rsqrt()) @ vectors.T
    else:
        base = base / base.square().mean(0).sqrt()
    return torch.cat([base, -base])
