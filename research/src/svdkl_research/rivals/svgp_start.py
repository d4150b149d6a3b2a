"""The start of a sparse GP's training: the kernel of an exact GP on a sample, and the best posterior for that kernel.

From an uninformed kernel and posterior, a thousand inducing points take more steps than a core has time for.
"""

from typing import Any

import gpytorch
import torch

from svdkl.shapes import Float, Tensor
from svdkl_research.rivals.sparse_gp import InducingGPs

SAMPLE, STEPS, RATE = 1000, 60, 0.1  # rows of the exact GP, and its steps and rate of Adam
BLOCK = 4096  # rows whose covariances with the inducing points are held at one time


class _ExactGP(gpytorch.models.ExactGP):  # type: ignore[misc]
    """An exact GP that shares mean and kernel with a sparse one."""

    def __init__(self, gp: InducingGPs, likelihood: Any, x: Tensor, y: Tensor) -> None:
        super().__init__(x, y, likelihood)
        self.gp = gp

    def forward(self, x: Tensor) -> Any:
        return self.gp.forward(x)


def start_kernel(
    gp: InducingGPs, likelihood: Any, x: Float[Tensor, "N inputs"], y: Float[Tensor, "N"], seed: int
) -> None:
    """Fit mean, kernel and noise to a sample of the rows by the exact marginal likelihood."""
    chosen = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:SAMPLE]
    exact = _ExactGP(gp, likelihood, x[chosen], y[chosen]).train()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, exact)
    parts = (gp.mean_module, gp.covar_module, likelihood)
    optimiser = torch.optim.Adam([p for part in parts for p in part.parameters()], lr=RATE)
    with gpytorch.settings.max_cholesky_size(SAMPLE):
        for _ in range(STEPS):
            optimiser.zero_grad()
            (-marginal(exact(x[chosen]), y[chosen])).backward()
            optimiser.step()


@torch.no_grad()
def start_posterior(gp: InducingGPs, likelihood: Any, x: Float[Tensor, "N inputs"], y: Float[Tensor, "N"]) -> None:
    """Set the whitened posterior to the best one for the present kernel and inducing points (Titsias, 2009).

    With A = L⁻¹ K_ZX and K_ZZ = L Lᵀ it has the precision I + A Aᵀ / σ² and the mean precision⁻¹ A (y − c) / σ².
    """
    strategy = gp.variational_strategy
    points, noise = strategy.inducing_points, likelihood.noise.double()
    prior = gp.covar_module(points).to_dense().double()
    prior.diagonal().add_(strategy.jitter_val)
    root = torch.linalg.cholesky(prior)
    precision, mean = torch.eye(len(points), dtype=torch.float64), torch.zeros(len(points), dtype=torch.float64)
    for part, target in zip(x.split(BLOCK), y.split(BLOCK), strict=True):
        cross = gp.covar_module(points, part).to_dense().double()
        whitened = torch.linalg.solve_triangular(root, cross, upper=False)
        precision += whitened @ whitened.T / noise
        mean += whitened @ (target - gp.mean_module(part)).double() / noise
    # The Cholesky factor of the precision in reversed order yields a lower triangular root of its inverse.
    reversed_root = torch.linalg.cholesky(precision.flip(0, 1)).flip(0, 1)
    lower = torch.linalg.inv(reversed_root).T
    posterior = strategy._variational_distribution
    posterior.variational_mean.copy_(lower @ (lower.T @ mean))
    posterior.chol_variational_covar.copy_(lower)
    strategy.variational_params_initialized.fill_(1)
