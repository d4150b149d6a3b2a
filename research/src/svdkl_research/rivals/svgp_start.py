"""Where the training of a sparse GP begins: at an exact GP of a sample, and at the posterior that this one would have.

From a kernel and a posterior that know nothing, a thousand inducing points take more steps than a core has time for.
"""

from typing import Any

import gpytorch
import torch

from svdkl.shapes import Float, Tensor
from svdkl_research.rivals.sparse_gp import SparseProcess

SAMPLE, STEPS, RATE = 1000, 60, 0.1  # rows, and steps of Adam, of the exact GP
BLOCK = 4096  # rows at once


class _ExactProcess(gpytorch.models.ExactGP):  # type: ignore[misc]
    """A GP with the mean and the kernel of another."""

    def __init__(self, process: SparseProcess, likelihood: Any, x: Tensor, y: Tensor) -> None:
        super().__init__(x, y, likelihood)
        self.process = process

    def forward(self, x: Tensor) -> Any:
        return self.process.forward(x)


def start_kernel(
    process: SparseProcess, likelihood: Any, x: Float[Tensor, "N inputs"], y: Float[Tensor, "N"], seed: int
) -> None:
    """Mean, kernel and noise of the largest marginal likelihood of some rows."""
    chosen = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:SAMPLE]
    exact = _ExactProcess(process, likelihood, x[chosen], y[chosen]).train()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, exact)
    parts = (process.mean_module, process.covar_module, likelihood)
    optimiser = torch.optim.Adam([p for part in parts for p in part.parameters()], lr=RATE)
    with gpytorch.settings.max_cholesky_size(SAMPLE):
        for _ in range(STEPS):
            optimiser.zero_grad()
            (-marginal(exact(x[chosen]), y[chosen])).backward()
            optimiser.step()


@torch.no_grad()
def start_posterior(
    process: SparseProcess, likelihood: Any, x: Float[Tensor, "N inputs"], y: Float[Tensor, "N"]
) -> None:
    """The best posterior for the kernel and the points as they are (Titsias, 2009), whitened.

    With A = L⁻¹ K_ZX and K_ZZ = L Lᵀ it has the precision I + A Aᵀ / σ² and the mean precision⁻¹ A (y − c) / σ².
    """
    strategy = process.variational_strategy
    points, noise = strategy.inducing_points, likelihood.noise.double()
    prior = process.covar_module(points).to_dense().double()
    prior.diagonal().add_(strategy.jitter_val)
    root = torch.linalg.cholesky(prior)
    precision, mean = torch.eye(len(points), dtype=torch.float64), torch.zeros(len(points), dtype=torch.float64)
    for part, target in zip(x.split(BLOCK), y.split(BLOCK), strict=True):
        cross = process.covar_module(points, part).to_dense().double()
        whitened = torch.linalg.solve_triangular(root, cross, upper=False)
        precision += whitened @ whitened.T / noise
        mean += whitened @ (target - process.mean_module(part)).double() / noise
    # A lower triangular root of the inverse comes from the precision with its order reversed.
    reversed_root = torch.linalg.cholesky(precision.flip(0, 1)).flip(0, 1)
    lower = torch.linalg.inv(reversed_root).T
    posterior = strategy._variational_distribution
    posterior.variational_mean.copy_(lower @ (lower.T @ mean))
    posterior.chol_variational_covar.copy_(lower)
    strategy.variational_params_initialized.fill_(1)
