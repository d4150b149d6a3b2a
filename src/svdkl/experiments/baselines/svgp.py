"""A sparse variational GP on the inputs themselves (Hensman et al., 2013), by gpytorch: a GP without a network."""

import math
import time
import warnings
from typing import Any

import gpytorch
import numpy as np
import pyarrow as pa
import torch
from sklearn.cluster import MiniBatchKMeans

from svdkl.experiments.baselines.interface import Floats, Gaussian, Labels, RealBaseline
from svdkl.experiments.baselines.matrix import CodedMatrix
from svdkl.shapes import Tensor

EVALUATIONS = 30  # of the validation rows in the whole budget
LOWEST = 0.01  # of the rate, at the end
PREDICTED_AT_ONCE = 4096


class _Process(gpytorch.models.ApproximateGP):  # type: ignore[misc]
    """A GP with a constant mean, whitened posterior and a Matérn-5/2 kernel with a lengthscale an input."""

    def __init__(self, inducing: Tensor) -> None:
        posterior = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
        super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, posterior))
        inputs = inducing.shape[1]
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(2.5, ard_num_dims=inputs))
        # Points that are standardised in each of d inputs lie about √(2 d) apart.
        self.covar_module.base_kernel.lengthscale = inputs**0.5

    def forward(self, x: Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class SparseGP(RealBaseline):
    """SVGP with standardised inputs and target.

    Parameters
    ----------
    inducing
        Points, at most; started at centres of k-means, and learned.
    steps, seconds
        Budget: training ends with whichever is used up first, and its rate goes down by a cosine towards that end.
    batch_size, rate
        Of Adam.
    """

    def __init__(
        self,
        inducing: int = 1024,
        steps: int = 3000,
        seconds: float = 300.0,
        batch_size: int = 1024,
        rate: float = 0.1,
    ) -> None:
        self.inducing = inducing
        self.steps = steps
        self.batch_size = batch_size
        self.rate = rate
        self.seconds = seconds
        self.taken = 0
        self.held_out_nlpd = math.nan

    def fit(self, X: pa.Table, y: Labels, X_held_out: pa.Table, y_held_out: Labels, seed: int) -> None:
        """Maximise the bound for the whole budget, and keep the state that is best on the validation rows."""
        start = time.perf_counter()
        self.matrix = CodedMatrix(X)
        raw = self.matrix.transform(X)
        if not np.isfinite(raw).all():
            raise ValueError("Expected numbers in all cells for svgp, got missing values: it has no way to take them.")
        self.centre, self.scale = raw.mean(0), raw.std(0)
        self.scale[self.scale == 0] = 1
        self.y_mean, self.y_std = float(y.mean()), float(y.std()) or 1.0
        x, target = self._inputs(raw), torch.tensor((y.astype(np.float64) - self.y_mean) / self.y_std).float()

        torch.manual_seed(seed)
        generator = torch.Generator().manual_seed(seed)
        self.process = _Process(self._inducing_points(x, seed))
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()
        self.likelihood.noise = 0.1
        bound = gpytorch.mlls.VariationalELBO(self.likelihood, self.process, num_data=len(x))
        parameters = [*self.process.parameters(), *self.likelihood.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=self.rate)
        best, kept, used, evaluations = np.inf, {}, 0.0, 0
        while used < 1:
            fraction = LOWEST + (1 - LOWEST) * 0.5 * (1 + math.cos(math.pi * used))
            for group in optimiser.param_groups:
                group["lr"] = self.rate * fraction
            batch = torch.randint(len(x), (min(self.batch_size, len(x)),), generator=generator)
            self.process.train()
            self.likelihood.train()
            optimiser.zero_grad()
            (-bound(self.process(x[batch]), target[batch])).backward()
            optimiser.step()
            self.taken += 1
            used = max(self.taken / self.steps, (time.perf_counter() - start) / self.seconds)
            if used * EVALUATIONS >= evaluations + 1:
                evaluations = int(used * EVALUATIONS)
                score = self._nlpd(X_held_out, y_held_out)
                if score < best:
                    best = score
                    kept = {name: value.clone() for name, value in self._whole().state_dict().items()}
        self._whole().load_state_dict(kept)
        self.held_out_nlpd = best

    @torch.no_grad()
    def predict_distribution(self, X: pa.Table) -> Gaussian:
        """Mean and standard deviation of the predictive distribution, noise included."""
        x = self._inputs(self.matrix.transform(X))
        self.process.eval()
        self.likelihood.eval()
        means, variances = [], []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gpytorch.utils.warnings.NumericalWarning)
            for part in x.split(PREDICTED_AT_ONCE):
                predicted = self.likelihood(self.process(part))
                means.append(predicted.mean)
                variances.append(predicted.variance)
        mean, std = torch.cat(means).double().numpy(), torch.cat(variances).double().sqrt().numpy()
        return Gaussian(mean * self.y_std + self.y_mean, std * self.y_std)

    def settings(self) -> dict[str, Any]:
        """Size and budget."""
        return {
            "inducing": self.inducing,
            "kernel": "matern52, ARD",
            "steps": self.steps,
            "seconds": self.seconds,
            "batch_size": self.batch_size,
            "rate": self.rate,
        }

    def findings(self) -> dict[str, Any]:
        """How far the budget went."""
        return {"steps": self.taken, "ended_by_time": self.taken < self.steps, "held_out_nlpd": self.held_out_nlpd}

    def _inputs(self, raw: Floats) -> Tensor:
        return torch.tensor((raw - self.centre) / self.scale).float()

    def _inducing_points(self, x: Tensor, seed: int) -> Tensor:
        if len(x) <= self.inducing:
            return x.clone()
        means = MiniBatchKMeans(self.inducing, batch_size=4096, n_init=1, max_iter=20, random_state=seed)
        return torch.tensor(means.fit(x.numpy()).cluster_centers_).float()

    def _whole(self) -> torch.nn.Module:
        return torch.nn.ModuleList([self.process, self.likelihood])

    def _nlpd(self, X: pa.Table, y: Labels) -> float:
        predicted = self.predict_distribution(X)
        z = (y.astype(np.float64) - predicted.mean) / predicted.std
        return float(np.mean(0.5 * z**2 + np.log(predicted.std)))
