"""Sparse variational GPs on the inputs themselves (Hensman et al., 2013), by gpytorch: GPs and their training."""

import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gpytorch
import numpy as np
import torch
from sklearn.cluster import MiniBatchKMeans

from svdkl.shapes import Tensor

EVALUATIONS = 30  # of the validation score in the whole budget
LOWEST = 0.01  # share of the first learning rate that is left at the end
TRIES = 6  # of a Cholesky factor in float32, each with ten times the jitter of the one before


class InducingGPs(gpytorch.models.ApproximateGP):  # type: ignore[misc]
    """GPs with inducing points: constant means, whitened posteriors, and kernels with a lengthscale an input.

    Parameters
    ----------
    inducing
        Inducing points, shape (m, inputs) for one GP or (L, m, inputs) for L GPs, which share no parameters.
    base
        Kernel of variance 1, which gets a scale.
    lengthscale
        First value of all lengthscales.
    """

    def __init__(self, inducing: Tensor, base: gpytorch.kernels.Kernel, lengthscale: float) -> None:
        batch = inducing.shape[:-2]
        posterior = gpytorch.variational.CholeskyVariationalDistribution(inducing.shape[-2], batch_shape=batch)
        super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, posterior))
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=batch)
        self.covar_module = gpytorch.kernels.ScaleKernel(base, batch_shape=batch)
        self.covar_module.base_kernel.lengthscale = lengthscale

    def forward(self, x: Tensor) -> Any:
        """Return the prior at some points."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def matern_gp(inducing: Tensor) -> InducingGPs:
    """Make a GP with a Matérn-5/2 kernel for standardised inputs."""
    inputs = inducing.shape[-1]
    # Points with d standardised inputs lie about √(2 d) apart, so √d is a lengthscale of that order.
    return InducingGPs(inducing, gpytorch.kernels.MaternKernel(2.5, ard_num_dims=inputs), inputs**0.5)


def rbf_gps(inducing: Tensor, latents: int, lengthscale: float) -> InducingGPs:
    """Make several GPs with RBF kernels, which start from the same inducing points and share no parameters."""
    batch = torch.Size([latents])
    base = gpytorch.kernels.RBFKernel(ard_num_dims=inducing.shape[-1], batch_shape=batch)
    return InducingGPs(inducing.repeat(latents, 1, 1), base, lengthscale)


def cluster_centres(x: Tensor, count: int, seed: int) -> Tensor:
    """Return points to start inducing points at: centres of k-means, or the rows themselves if they are few."""
    if len(x) <= count:
        return x.clone()
    means = MiniBatchKMeans(count, batch_size=4096, n_init=1, max_iter=20, random_state=seed)
    return torch.tensor(means.fit(x.numpy()).cluster_centers_).float()


@contextmanager
def single_precision() -> Iterator[None]:
    """Compute Cholesky factors in float32, for more steps in the same time, without warnings of growing jitter."""
    precision, tries = gpytorch.settings.linalg_dtypes(torch.float32), gpytorch.settings.cholesky_max_tries(TRIES)
    with warnings.catch_warnings(), precision, tries:
        warnings.simplefilter("ignore", gpytorch.utils.warnings.NumericalWarning)
        yield


@dataclass(frozen=True)
class StepBudget:
    """Steps and seconds of training, which ends when either is used up, its rate going down towards that end.

    Seconds are processor seconds, so that other work on the machine takes nothing away, and count all threads together,
    so that more threads give no more steps.
    """

    steps: int
    seconds: float
    batch_size: int
    rate: float


@dataclass(frozen=True)
class Trained:
    """The number of steps taken, and the best validation score."""

    steps: int
    score: float


def maximise(
    model: torch.nn.Module,
    bound: Callable[[Tensor], Tensor],
    held_out: Callable[[], float],
    num_rows: int,
    budget: StepBudget,
    seed: int,
    start: float,
) -> Trained:
    """Maximise a bound by Adam on minibatches for the whole budget; leave the model in its best state.

    ``bound`` takes the row indices of a minibatch, ``held_out`` returns the validation score, lower is better,
    and ``start`` is the ``time.process_time`` when the budget began.
    """
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=budget.rate)
    best, kept, used, evaluations, taken = np.inf, {}, 0.0, 0, 0
    with torch.random.fork_rng(devices=[]), single_precision():
        torch.manual_seed(seed)  # gpytorch starts posterior means with noise
        while used < 1:
            fraction = LOWEST + (1 - LOWEST) * 0.5 * (1 + math.cos(math.pi * used))
            for group in optimiser.param_groups:
                group["lr"] = budget.rate * fraction
            batch = torch.randint(num_rows, (min(budget.batch_size, num_rows),), generator=generator)
            model.train()
            optimiser.zero_grad()
            (-bound(batch)).backward()
            optimiser.step()
            taken += 1
            used = max(taken / budget.steps, (time.process_time() - start) / budget.seconds)
            if used * EVALUATIONS >= evaluations + 1:
                evaluations = int(used * EVALUATIONS)
                model.eval()
                score = held_out()
                if score < best:
                    best = score
                    kept = {name: value.clone() for name, value in model.state_dict().items()}
    if not kept:
        raise ValueError(
            "Expected a finite score of the validation rows, got none in the whole budget: lower the rate."
        )
    model.load_state_dict(kept)
    model.eval()
    return Trained(taken, best)
