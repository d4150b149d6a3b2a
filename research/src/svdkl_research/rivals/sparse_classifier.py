"""The common part of sparse variational GP classifiers on the inputs: rows, starting point, training, predictions.

Two classes have one latent GP under the probit; more classes have one each under the softmax. The inputs of tables are
standardised numbers and one-hot labels, the inputs of images their first principal components.
"""

import math
import time
from abc import abstractmethod
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import nn

from svdkl.gp.quadrature import normal_points
from svdkl.shapes import Float, Int, Tensor
from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.interface import ClassBaseline, Floats, Labels
from svdkl_research.rivals.matrix import input_matrix
from svdkl_research.rivals.sparse_gp import StepBudget, Trained, cluster_centres, maximise, single_precision

CLUSTERED = 50_000  # most rows among which k-means looks for inducing points, to bound its time
JUDGED = 10_000  # most validation rows that choose the best state, 30 times in a fit
PREDICTED_AT_ONCE = 2048
TRAINING_SAMPLES = 8
PREDICTION_POINTS = 128


class SparseClassifier(ClassBaseline):
    """A classifier of latent GPs with inducing points, trained by a subclass's bound on the evidence.

    Parameters
    ----------
    inducing
        Most inducing points of each GP. They start at centres of k-means and are learned.
    components
        Most principal components that stand for an image.
    budget
        Steps and seconds of training, which ends when either is used up.
    """

    name: str  # of the model in error messages
    gps: nn.Module

    def __init__(self, inducing: int, components: int, budget: StepBudget) -> None:
        self.inducing, self.components, self.budget = inducing, components, budget
        self.trained = Trained(0, math.nan)

    @abstractmethod
    def _begin(
        self, centres: Float[Tensor, "m d"], latents: int, lengthscale: float, generator: torch.Generator
    ) -> nn.Module:
        """Make the GPs as they are before training."""

    @abstractmethod
    def _bound(
        self, x: Float[Tensor, "B d"], labels: Int[Tensor, "B"], num_rows: int, generator: torch.Generator
    ) -> Float[Tensor, ""]:
        """Estimate the bound on the log evidence per row from a minibatch."""

    @abstractmethod
    def _predict(self, x: Float[Tensor, "B d"]) -> Float[Tensor, "B C"]:
        """Return the class probabilities of each row."""

    def fit(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels, seed: int) -> None:
        """Maximise the bound for the whole budget, and keep the state that scores best on the validation rows."""
        start = time.process_time()
        labels = torch.tensor(y.astype(np.int64))
        classes = int(max(y.max(), y_held_out.max())) + 1
        if classes < 2:
            raise ValueError(f"Expected rows of at least two classes for {self.name}, got one.")
        random, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
        self.matrix = input_matrix(X, self.components, seed)
        codes = self.matrix.code(X)
        some = self._expand(codes[random.permutation(len(codes))[:CLUSTERED]])
        # Rows lie about √(2 Σ_d var x_d) apart.
        lengthscale = max(float(some.var(0, correction=0).sum().sqrt()), 1e-3)
        centres = cluster_centres(some, self.inducing, seed)
        self.gps = self._begin(centres, 1 if classes == 2 else classes, lengthscale, generator)
        judged = random.permutation(len(y_held_out))[:JUDGED]
        held_out_codes, held_out_labels = self.matrix.code(X_held_out)[judged], y_held_out[judged].astype(np.int64)

        def bound(batch: Tensor) -> Tensor:
            return self._bound(self._expand(codes[batch.numpy()]), labels[batch], len(codes), generator)

        def held_out() -> float:
            p = self._probabilities(held_out_codes)
            return float(-np.log(p[np.arange(len(p)), held_out_labels]).mean())

        self.trained = maximise(self.gps, bound, held_out, len(codes), self.budget, seed, start)

    def predict_proba(self, X: Inputs) -> Floats:
        """Return the class probabilities of each row, shape (rows, C)."""
        return self._probabilities(self.matrix.code(X))

    def settings(self) -> dict[str, Any]:
        """Return size and budget."""
        return {"inducing": self.inducing, "kernel": "rbf, ARD", **asdict(self.budget)}

    def findings(self) -> dict[str, Any]:
        """Return the steps taken, whether time ended them, and the best validation score."""
        by_time = self.trained.steps < self.budget.steps
        found = {"steps": self.trained.steps, "ended_by_time": by_time, "held_out_nlp": self.trained.score}
        return {**found, **self.matrix.findings}

    def _expand(self, codes: Floats) -> Tensor:
        return torch.from_numpy(self.matrix.expand(codes))

    @torch.no_grad()
    def _probabilities(self, codes: Floats) -> Floats:
        parts = [codes[i : i + PREDICTED_AT_ONCE] for i in range(0, len(codes), PREDICTED_AT_ONCE)]
        with single_precision():
            return np.concatenate([self._predict(self._expand(part)).numpy() for part in parts])


def predictive(mean: Float[Tensor, "B L"], variance: Float[Tensor, "B L"]) -> Float[Tensor, "B C"]:
    """Return E p(y | f) of each row, f ~ N(mean, diag variance), by points that all rows share, in double precision."""
    mean, variance = mean.double(), variance.double().clamp(min=0)
    if mean.shape[1] == 1:
        z = mean / (1 + variance).sqrt()
        return torch.special.ndtr(torch.cat([-z, z], 1))
    # Rows come last, since a softmax over a few neighbouring numbers is slow.
    mean, std = mean.T.contiguous(), variance.T.sqrt()
    total = torch.zeros_like(mean)
    for point in normal_points(PREDICTION_POINTS, len(mean)):
        total += (mean + std * point[:, None]).softmax(0)
    return (total / total.sum(0)).T
