"""KLSP-GP: a sparse variational GP classifier on the inputs themselves (Hensman et al., 2015), with RBF-ARD kernels.

Two classes are one GP under the probit, whose expectations are quadrature and closed form. More classes are one GP a
class under the softmax, whose expectations are averages over samples of each row's marginal. (gpytorch's own softmax
likelihood is not used: it takes a minibatch of as many rows as classes for its transpose.)

The inputs are standardised numbers and one-hot labels; of images, their first principal components.
"""

import math
import time
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from sklearn.decomposition import PCA

from svdkl.experiments.baselines.interface import ClassBaseline, Floats, Labels
from svdkl.experiments.baselines.matrix import OneHotMatrix
from svdkl.experiments.baselines.sparse_gp import (
    Budget,
    Trained,
    cluster_centres,
    maximise,
    rbf_processes,
    single_precision,
)
from svdkl.experiments.datasets.dataset import Inputs
from svdkl.quadrature import expectation_1d, normal_points, standard_deviation
from svdkl.shapes import Float, Int, Tensor

COMPONENTS = 50  # of images
CLUSTERED = 50_000  # rows, at most, among which k-means looks for inducing points
JUDGED = 10_000  # validation rows, at most, by which the best state is chosen
PREDICTED_AT_ONCE = 2048
TRAINING_SAMPLES = 8
PREDICTION_POINTS = 128


class PixelMatrix:
    """Images as their first principal components on the rows to fit, with one scale for all, of mean variance 1.

    A scale for each would blow up the last components, which hold noise.
    """

    def __init__(self, images: Inputs, components: int, seed: int) -> None:
        flat = self._flat(images)
        self.components = min(components, *flat.shape)
        self.pca = PCA(self.components, svd_solver="randomized", random_state=seed).fit(flat)
        self.scale = max(float(np.sqrt(self.pca.explained_variance_.mean())), 1e-6)

    @property
    def findings(self) -> dict[str, Any]:
        """How much of the images the components hold."""
        return {"components": self.components, "variance_kept": float(self.pca.explained_variance_ratio_.sum())}

    def code(self, images: Inputs) -> Floats:
        """The components (rows, inputs)."""
        blocks = [images[i : i + CLUSTERED] for i in range(0, len(images), CLUSTERED)]
        return np.concatenate(
            [self.pca.transform(self._flat(block)) / self.scale for block in blocks], dtype=np.float32
        )

    def expand(self, codes: Floats) -> Floats:
        """The same: they are the inputs already."""
        return codes

    @staticmethod
    def _flat(images: Inputs) -> Floats:
        return np.asarray(images.reshape(len(images), -1), np.float32) / 255


def input_matrix(X: Inputs, components: int, seed: int) -> OneHotMatrix | PixelMatrix:
    """What turns rows into inputs of a kernel, from the rows to fit."""
    return OneHotMatrix(X) if isinstance(X, pa.Table) else PixelMatrix(X, components, seed)


class SparseGPClassifier(ClassBaseline):
    """KLSP-GP on standardised numbers and one-hot labels, or on components of images.

    Parameters
    ----------
    inducing
        Points of each GP, at most; started at centres of k-means, and learned.
    steps, seconds
        Budget: training ends with whichever is used up first, and its rate goes down by a cosine towards that end.
    batch_size, rate
        Of Adam.
    components
        Of images, at most.
    """

    def __init__(
        self,
        inducing: int = 200,
        steps: int = 3000,
        seconds: float = 300.0,
        batch_size: int = 1024,
        rate: float = 0.03,
        components: int = COMPONENTS,
    ) -> None:
        self.inducing = inducing
        self.components = components
        self.budget = Budget(steps, seconds, batch_size, rate)
        self.trained = Trained(0, math.nan)

    def fit(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels, seed: int) -> None:
        """Maximise the bound for the whole budget, and keep the state that is best on the validation rows."""
        start = time.process_time()
        labels = torch.tensor(y.astype(np.int64))
        self.classes = int(max(y.max(), y_held_out.max())) + 1
        if self.classes < 2:
            raise ValueError("Expected rows of at least two classes for klsp_gp, got one.")
        random = np.random.default_rng(seed)
        self.matrix = input_matrix(X, self.components, seed)
        codes = self.matrix.code(X)
        some = self._expand(codes[random.permutation(len(codes))[:CLUSTERED]])
        # Rows lie about √(2 Σ_d var x_d) apart.
        lengthscale = max(float(some.var(0, correction=0).sum().sqrt()), 1e-3)
        centres = cluster_centres(some, self.inducing, seed)
        self.process = rbf_processes(centres, 1 if self.classes == 2 else self.classes, lengthscale)
        judged = random.permutation(len(y_held_out))[:JUDGED]
        held_out_codes, held_out_labels = self.matrix.code(X_held_out)[judged], y_held_out[judged].astype(np.int64)
        generator = torch.Generator().manual_seed(seed)

        def bound(batch: Tensor) -> Tensor:
            mean, variance = self._latents(self._expand(codes[batch.numpy()]))
            fit = expected_log_likelihood(mean, variance, labels[batch], generator).mean()
            return fit - self.process.variational_strategy.kl_divergence().sum() / len(codes)

        def held_out() -> float:
            p = self._probabilities(held_out_codes)
            return float(-np.log(p[np.arange(len(p)), held_out_labels]).mean())

        self.trained = maximise(self.process, bound, held_out, len(codes), self.budget, seed, start)

    def predict_proba(self, X: Inputs) -> Floats:
        """Class probabilities (rows, C)."""
        return self._probabilities(self.matrix.code(X))

    def settings(self) -> dict[str, Any]:
        """Size and budget."""
        return {"inducing": self.inducing, "kernel": "rbf, ARD", **asdict(self.budget)}

    def findings(self) -> dict[str, Any]:
        """How far the budget went."""
        by_time = self.trained.steps < self.budget.steps
        found = {"steps": self.trained.steps, "ended_by_time": by_time, "held_out_nlp": self.trained.score}
        return {**found, **self.matrix.findings} if isinstance(self.matrix, PixelMatrix) else found

    def _expand(self, codes: Floats) -> Tensor:
        return torch.from_numpy(self.matrix.expand(codes))

    def _latents(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Marginal means and variances (rows, latents)."""
        latent = self.process(x)
        return latent.mean.T, latent.variance.T

    @torch.no_grad()
    def _probabilities(self, codes: Floats) -> Floats:
        parts = [codes[i : i + PREDICTED_AT_ONCE] for i in range(0, len(codes), PREDICTED_AT_ONCE)]
        with single_precision():
            return np.concatenate([predictive(*self._latents(self._expand(part))).numpy() for part in parts])


def expected_log_likelihood(
    mean: Float[Tensor, "B L"], variance: Float[Tensor, "B L"], labels: Int[Tensor, "B"], generator: torch.Generator
) -> Float[Tensor, "B"]:
    """E log p(y | f) of each row, f ~ N(mean, diag variance)."""
    if mean.shape[1] == 1:
        sign = (2 * labels - 1)[:, None]
        return expectation_1d(lambda f: torch.special.log_ndtr(sign * f), mean, variance)[:, 0]
    noise = torch.randn(TRAINING_SAMPLES, *mean.shape, generator=generator)
    log_p = (mean + standard_deviation(variance) * noise).log_softmax(2).mean(0)
    return log_p.gather(1, labels[:, None])[:, 0]


def predictive(mean: Float[Tensor, "B L"], variance: Float[Tensor, "B L"]) -> Float[Tensor, "B C"]:
    """E p(y | f) of each row, f ~ N(mean, diag variance), by the same points for all rows and in double precision."""
    mean, variance = mean.double(), variance.double().clamp(min=0)
    if mean.shape[1] == 1:
        z = mean / (1 + variance).sqrt()
        return torch.special.ndtr(torch.cat([-z, z], 1))
    # Rows last, since a softmax over a few neighbouring numbers is slow.
    mean, std = mean.T.contiguous(), variance.T.sqrt()
    total = torch.zeros_like(mean)
    for point in normal_points(PREDICTION_POINTS, len(mean)):
        total += (mean + std * point[:, None]).softmax(0)
    return (total / total.sum(0)).T
