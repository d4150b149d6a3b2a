"""D-GPLVM: a Bayesian GP latent variable model of each class's images (Titsias and Lawrence, 2010; Gal et al., 2014).

A class's images y_n = f(x_n) + noise have latents x_n ~ N(0, I) with posteriors N(μ_n, diag s_n), and f is a sparse GP
with an RBF kernel. Its inducing values are integrated out of the bound, which sees the rows through sums over them only
(that is what Gal et al. distribute), of the closed forms

    ψ1_ni = E k(x_n, z_i),   ψ2_nij = E k(z_i, x_n) k(x_n, z_j)

A new image gets latents of its own in each class's model; the bounds on its log density there become probabilities by a
softmax with one slope and a bias a class, fitted to the validation rows.
"""

import math
import time
from typing import Any

import numpy as np
import torch
from torch import nn

from svdkl.shapes import Float, Tensor
from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.interface import DOUBT, ClassBaseline, Floats, Labels, doubt
from svdkl_research.rivals.matrix import COMPONENTS, input_matrix
from svdkl_research.rivals.sparse_classifier import JUDGED, PREDICTED_AT_ONCE
from svdkl_research.rivals.sparse_gp import cluster_centres
from svdkl_research.rivals.svm import MarginSoftmax, some_of_each_class

FEWEST = 10  # fewest rows of a class that a model is fitted to
JITTER = 1e-6  # share of the kernel's variance that is added to the diagonal
FIRST_VARIANCE = 0.1  # of the latents' posteriors before training
RATE = 0.03  # first learning rate of Adam in training
ROW_RATE = 0.1  # learning rate of Adam for the latents of new images, which has few steps
LOG_2_PI = math.log(2 * math.pi)


class LatentVariableModel(nn.Module):
    """The model of one class's rows Y (N, D), centred.

    Parameters
    ----------
    latents
        Number Q of dimensions of x_n, which starts at the rows' principal components.
    inducing
        Most inducing points.
    """

    def __init__(self, Y: Float[Tensor, "N D"], latents: int, inducing: int, seed: int) -> None:
        super().__init__()
        self.Y = Y
        U, lengths, _ = torch.linalg.svd(Y, full_matrices=False)
        latents = min(latents, len(lengths) - 1)
        x = U[:, :latents] * math.sqrt(len(Y))
        self.mean = nn.Parameter(x.clone())
        self.log_variance = nn.Parameter(torch.full_like(x, math.log(FIRST_VARIANCE)))
        self.inducing = nn.Parameter(cluster_centres(x.float(), inducing, seed).double())
        self.log_lengthscale = nn.Parameter(torch.full_like(x[0], 0.5 * math.log(latents)))
        self.log_amplitude = nn.Parameter(Y.square().mean().sqrt().log())
        left = lengths[latents:].square().sum() / Y.numel()
        self.log_noise = nn.Parameter(left.clamp(min=1e-4).log())  # variance
        self.pairs = torch.triu_indices(len(self.inducing), len(self.inducing))

    def bound(self) -> Float[Tensor, ""]:
        """Return the lower bound on log p(Y)."""
        N, D = self.Y.shape
        K, P, projected, psi2 = self._sums()
        beta = (-self.log_noise).exp()
        # Terms like Σ_d log N(y_d; 0, Ψ1 K⁻¹ Ψ1ᵀ + σ²), by the m x m matrices K and P = K + β Ψ2
        fit = torch.linalg.solve_triangular(P, projected, upper=False).square().sum()
        log_dets = 2 * D * (K.diagonal().log().sum() - P.diagonal().log().sum())
        trace = torch.cholesky_solve(psi2, K).trace()
        amplitude = (2 * self.log_amplitude).exp()
        likelihood = N * D * (beta.log() - LOG_2_PI) + log_dets - beta * self.Y.square().sum()
        left_out = beta * D * (N * amplitude - trace)  # variance of f that the inducing points leave
        return 0.5 * (likelihood + beta.square() * fit - left_out) - divergence(self.mean, self.log_variance).sum()

    @torch.no_grad()
    def finish(self) -> None:
        """Keep B of E f(x) = ψ1 B and the weights of ψ2 in E |f(x)|², which predictions need."""
        K, P, projected, _ = self._sums()
        D = self.Y.shape[1]
        self.B = (-self.log_noise).exp() * torch.cholesky_solve(projected, P)
        G = self.B @ self.B.T + D * (torch.cholesky_inverse(P) - torch.cholesky_inverse(K))
        i, j = self.pairs
        self.G = G[i, j] * torch.where(i == j, 1.0, 2.0).to(G)
        self.requires_grad_(False)

    def log_densities(self, Y: Float[Tensor, "B D"], steps: int) -> Float[Tensor, "B"]:
        """Return lower bounds on log p(y) of new rows, whose latents start at the nearest row of the class."""
        nearest = torch.cdist(Y, self.Y).argmin(1)
        mean, log_variance = (p[nearest].clone().requires_grad_() for p in (self.mean, self.log_variance))
        optimiser = torch.optim.Adam([mean, log_variance], lr=ROW_RATE)
        for _ in range(steps):
            optimiser.zero_grad()
            (-self._row_bounds(Y, mean, log_variance).sum()).backward()
            optimiser.step()
        with torch.no_grad():
            return self._row_bounds(Y, mean, log_variance)

    def _row_bounds(self, Y: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
        psi1, psi2 = self._statistics(mean, log_variance.exp())
        square = (2 * self.log_amplitude).exp() * Y.shape[1] + psi2 @ self.G
        error = Y.square().sum(1) - 2 * (Y * (psi1 @ self.B)).sum(1) + square
        fit = -0.5 * (Y.shape[1] * (LOG_2_PI + self.log_noise) + (-self.log_noise).exp() * error)
        return fit - divergence(mean, log_variance)

    def _sums(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the Cholesky factors of K and P = K + β Ψ2, then Ψ1ᵀ Y and Ψ2."""
        psi1, pairs = self._statistics(self.mean, self.log_variance.exp())
        m = len(self.inducing)
        upper = pairs.new_zeros(m, m).index_put(tuple(self.pairs), pairs.sum(0))
        psi2 = upper + upper.triu(1).T
        z = self.inducing / self.log_lengthscale.exp()
        apart = (z[:, None] - z).square().sum(2)
        eye = torch.eye(m, dtype=z.dtype)
        K = (2 * self.log_amplitude).exp() * ((-0.5 * apart).exp() + JITTER * eye)
        P = torch.linalg.cholesky(K + (-self.log_noise).exp() * psi2)
        return torch.linalg.cholesky(K), P, psi1.T @ self.Y, psi2

    def _statistics(
        self, mean: Float[Tensor, "B Q"], variance: Float[Tensor, "B Q"]
    ) -> tuple[Float[Tensor, "B m"], Float[Tensor, "B pairs"]]:
        """Return ψ1, and ψ2 of the pairs i ≤ j of inducing points."""
        z, square = self.inducing, (2 * self.log_lengthscale).exp()
        i, j = self.pairs
        near = -0.25 * ((z[i] - z[j]).square() / square).sum(1)
        psi1 = 2 * self.log_amplitude + log_overlap(mean, variance / square, z, 0.5 / (variance + square))
        middle = 0.5 * (z[i] + z[j])
        psi2 = (
            4 * self.log_amplitude
            + near
            + log_overlap(mean, 2 * variance / square, middle, 1 / (2 * variance + square))
        )
        return psi1.exp(), psi2.exp()


class LatentVariableClassifier(ClassBaseline):
    """D-GPLVM, on components of images or on a table's inputs.

    Parameters
    ----------
    latents, inducing
        Numbers of latent dimensions and of inducing points of each class's model.
    rows
        Most training rows that the models are fitted to.
    steps, seconds
        Budget of Adam: steps for each class, and processor seconds of all threads for all classes together.
    row_steps
        Steps of Adam for the latents of a new image.
    components
        Most principal components that stand for an image.
    """

    def __init__(
        self,
        latents: int = 10,
        inducing: int = 40,
        rows: int = 10_000,
        steps: int = 300,
        seconds: float = 600.0,
        row_steps: int = 20,
        components: int = COMPONENTS,
    ) -> None:
        self.latents, self.inducing, self.rows, self.components = latents, inducing, rows, components
        self.steps, self.seconds, self.row_steps = steps, seconds, row_steps
        self.found: dict[str, Any] = {}

    def fit(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels, seed: int) -> None:
        """Fit a model for each class, then the softmax of their densities to the validation rows."""
        classes = int(max(y.max(), y_held_out.max())) + 1
        random = np.random.default_rng(seed)
        chosen = some_of_each_class(y, self.rows, random)
        self.matrix = input_matrix(X, self.components, seed)
        Y, labels = self._inputs(X)[chosen], torch.tensor(y[chosen].astype(np.int64))
        counts = torch.bincount(labels, minlength=classes)
        if classes < 2 or counts.min() < FEWEST:
            raise ValueError(
                f"Expected {FEWEST} rows or more of each of two classes or more for d_gplvm, got {counts.tolist()}."
            )
        self.centres = torch.stack([Y[labels == c].mean(0) for c in range(classes)])
        self.models, steps = [], []
        for c in range(classes):
            model = LatentVariableModel(Y[labels == c] - self.centres[c], self.latents, self.inducing, seed)
            steps.append(train(model, self.steps, self.seconds / classes))
            self.models.append(model)
        judged = random.permutation(len(y_held_out))[:JUDGED]
        self.softmax = MarginSoftmax()
        self.softmax.fit(self._log_densities(self._inputs(X_held_out)[judged]), y_held_out[judged])
        by_time = min(steps) < self.steps
        self.found = {
            "rows": len(Y),
            "of_rows": len(y),
            "steps": min(steps),
            "ended_by_time": by_time,
            **self.matrix.findings,
        }

    def predict_proba(self, X: Inputs) -> Floats:
        """Return the class probabilities of each row, shape (rows, C)."""
        return self.softmax.apply(self._log_densities(self._inputs(X)))

    def ood_scores(self, X: Inputs) -> dict[str, Floats]:
        """Return the doubt, and minus the log density of the class that explains the image best."""
        densities = self._log_densities(self._inputs(X))
        return {DOUBT: doubt(self.softmax.apply(densities)), "density": -densities.max(1)}

    def settings(self) -> dict[str, Any]:
        """Return sizes and budget."""
        sizes = {"latents": self.latents, "inducing": self.inducing, "rows": self.rows, "kernel": "rbf, ARD"}
        return {**sizes, "steps": self.steps, "seconds": self.seconds, "row_steps": self.row_steps}

    def findings(self) -> dict[str, Any]:
        """Return the steps taken, whether time ended them, and the number of rows fitted."""
        return dict(self.found)

    def _inputs(self, X: Inputs) -> Tensor:
        return torch.from_numpy(self.matrix.expand(self.matrix.code(X))).double()

    def _log_densities(self, Y: Tensor) -> Floats:
        """Return the bounds on log p(y) of each row in each class's model, shape (rows, C)."""
        blocks = [
            torch.stack([m.log_densities(part - c, self.row_steps) for m, c in zip(self.models, self.centres)], 1)
            for part in Y.split(PREDICTED_AT_ONCE)
        ]
        return torch.cat(blocks).numpy()


def train(model: LatentVariableModel, steps: int, seconds: float) -> int:
    """Maximise the bound by Adam on all rows, with a rate that goes down to zero; return the number of steps."""
    start, used, taken = time.process_time(), 0.0, 0
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    while used < 1:
        for group in optimiser.param_groups:
            group["lr"] = RATE * 0.5 * (1 + math.cos(math.pi * used))
        optimiser.zero_grad()
        (-model.bound()).backward()
        optimiser.step()
        taken += 1
        used = max(taken / steps, (time.process_time() - start) / seconds)
    model.finish()
    return taken


def log_overlap(
    mean: Float[Tensor, "B Q"], spread: Float[Tensor, "B Q"], place: Float[Tensor, "P Q"], weight: Float[Tensor, "B Q"]
) -> Float[Tensor, "B P"]:
    """−½ Σ_q log(1 + spread) − Σ_q weight (mean − place)², by products of matrices."""
    alone = (0.5 * spread.log1p() + weight * mean.square()).sum(1)
    return 2 * (weight * mean) @ place.T - weight @ place.square().T - alone[:, None]


def divergence(mean: Float[Tensor, "B Q"], log_variance: Float[Tensor, "B Q"]) -> Float[Tensor, "B"]:
    """Return KL(N(mean, diag variance) || N(0, I)) for each row."""
    return 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum(1)
