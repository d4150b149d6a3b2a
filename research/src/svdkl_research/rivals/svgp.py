"""A sparse variational GP on the inputs themselves (Hensman et al., 2013), by gpytorch: a GP without a network."""

import math
import time
from dataclasses import asdict
from typing import Any

import gpytorch
import numpy as np
import pyarrow as pa
import torch

from svdkl.shapes import Tensor
from svdkl_research.rivals.interface import Floats, Gaussian, Labels, RealBaseline
from svdkl_research.rivals.matrix import CodedMatrix
from svdkl_research.rivals.sparse_gp import StepBudget, Trained, cluster_centres, matern_gp, maximise, single_precision
from svdkl_research.rivals.svgp_start import start_kernel, start_posterior

PREDICTED_AT_ONCE = 4096


class SparseGP(RealBaseline):
    """SVGP on standardised inputs and target, started from an exact GP on a sample of the rows.

    Parameters
    ----------
    inducing
        Most inducing points. They start at centres of k-means and are learned.
    steps, seconds
        Training ends when either is used up. The learning rate goes down by a cosine towards that end.
    batch_size, rate
        Minibatch size and first learning rate of Adam.
    """

    def __init__(
        self,
        inducing: int = 1024,
        steps: int = 3000,
        seconds: float = 45.0,
        batch_size: int = 256,
        rate: float = 0.01,
    ) -> None:
        self.inducing = inducing
        self.budget = StepBudget(steps, seconds, batch_size, rate)
        self.trained = Trained(0, math.nan)

    def fit(self, X: pa.Table, y: Labels, X_held_out: pa.Table, y_held_out: Labels, seed: int) -> None:
        """Maximise the bound for the whole budget, and keep the state that scores best on the validation rows."""
        start = time.process_time()
        self.matrix = CodedMatrix(X)
        raw = self.matrix.transform(X)
        if not np.isfinite(raw).all():
            raise ValueError("Expected numbers in all cells for svgp, got missing values: it has no way to take them.")
        self.centre, self.scale = raw.mean(0), raw.std(0)
        self.scale[self.scale == 0] = 1
        self.y_mean, self.y_std = float(y.mean()), float(y.std()) or 1.0
        x, target = self._inputs(raw), torch.tensor((y.astype(np.float64) - self.y_mean) / self.y_std).float()

        self.gps = matern_gp(cluster_centres(x, self.inducing, seed))
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()
        self.likelihood.noise = 0.1
        start_kernel(self.gps, self.likelihood, x, target, seed)
        start_posterior(self.gps, self.likelihood, x, target)
        elbo = gpytorch.mlls.VariationalELBO(self.likelihood, self.gps, num_data=len(x))
        self.trained = maximise(
            torch.nn.ModuleList([self.gps, self.likelihood]),
            lambda batch: elbo(self.gps(x[batch]), target[batch]),
            lambda: self._nlpd(X_held_out, y_held_out),
            len(x),
            self.budget,
            seed,
            start,
        )

    @torch.no_grad()
    def predict_distribution(self, X: pa.Table) -> Gaussian:
        """Return the predictive mean and standard deviation of each row, noise included."""
        x = self._inputs(self.matrix.transform(X))
        means, variances = [], []
        with single_precision():
            for part in x.split(PREDICTED_AT_ONCE):
                predicted = self.likelihood(self.gps(part))
                means.append(predicted.mean)
                variances.append(predicted.variance)
        mean, std = torch.cat(means).double().numpy(), torch.cat(variances).double().sqrt().numpy()
        return Gaussian(mean * self.y_std + self.y_mean, std * self.y_std)

    def settings(self) -> dict[str, Any]:
        """Return size and budget."""
        return {"inducing": self.inducing, "kernel": "matern52, ARD", **asdict(self.budget)}

    def findings(self) -> dict[str, Any]:
        """Return the steps taken, whether time ended them, and the best validation score."""
        by_time = self.trained.steps < self.budget.steps
        return {"steps": self.trained.steps, "ended_by_time": by_time, "held_out_nlpd": self.trained.score}

    def _inputs(self, raw: Floats) -> Tensor:
        return torch.tensor((raw - self.centre) / self.scale).float()

    def _nlpd(self, X: pa.Table, y: Labels) -> float:
        predicted = self.predict_distribution(X)
        z = (y.astype(np.float64) - predicted.mean) / predicted.std
        return float(np.mean(0.5 * z**2 + np.log(predicted.std)))
