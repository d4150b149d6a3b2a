"""SAVI-GP: a sparse GP classifier with a mixture of diagonal Gaussians as its posterior (Dezfouli and Bonilla, 2015).

    q(u) = Σ_k π_k Π_l N(u_l; m_kl, diag s_kl),   l over the latent GPs, one a class, or one for two classes

The bound is that on the mixture's entropy, −Σ_k π_k log Σ_j π_j N(m_k; m_j, S_k + S_j), plus E log p(u), plus the
expected log likelihood of the rows. The latter asks the likelihood for nothing but its values, at samples of each row's
univariate marginals; the samples move with the marginals, so that their gradients need no control variates.
"""

import math
import time
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import nn

from svdkl.experiments.baselines.interface import ClassBaseline, Floats, Labels
from svdkl.experiments.baselines.klsp_gp import (
    CLUSTERED,
    COMPONENTS,
    JUDGED,
    PREDICTED_AT_ONCE,
    TRAINING_SAMPLES,
    PixelMatrix,
    input_matrix,
    predictive,
)
from svdkl.experiments.baselines.sparse_gp import Budget, Trained, cluster_centres, maximise
from svdkl.experiments.datasets.dataset import Inputs
from svdkl.quadrature import standard_deviation
from svdkl.shapes import Float, Int, Tensor

JITTER = 1e-5  # of the kernel's variance
APART = 0.1  # how far the mixture's means start from each other, in standard deviations of the prior


class MixtureProcess(nn.Module):
    """L sparse GPs with RBF kernels of their own, and a mixture of K diagonal Gaussians over all their inducing values.

    Means are kept whitened, m = R v with K_mm = R Rᵀ, since steps in v suit all directions alike; variances are those
    of the inducing values themselves, as in the paper.
    """

    def __init__(
        self, inducing: Float[Tensor, "m d"], latents: int, mixture: int, lengthscale: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        points, inputs = inducing.shape
        self.inducing = nn.Parameter(inducing.repeat(latents, 1, 1))
        self.log_lengthscale = nn.Parameter(torch.full((latents, inputs), math.log(lengthscale)))
        self.log_amplitude = nn.Parameter(torch.zeros(latents))
        self.v = nn.Parameter(APART * torch.randn(mixture, latents, points, generator=generator))
        self.log_weight = nn.Parameter(torch.zeros(mixture))
        with torch.no_grad():
            R, _ = self.factors(inducing[:1])
            # Where a diagonal Gaussian is nearest to the prior.
            self.log_variance = nn.Parameter(-inverse_diagonal(R).log().float().expand(mixture, -1, -1).clone())

    def factors(self, x: Float[Tensor, "B d"]) -> tuple[Float[Tensor, "L m m"], Float[Tensor, "L m B"]]:
        """R with K_mm = R Rᵀ, in double precision, and W = R⁻¹ K_mn."""
        return rbf_factors(x, self.inducing, self.log_lengthscale.exp(), self.log_amplitude.exp())

    def marginals(
        self, R: Float[Tensor, "L m m"], W: Float[Tensor, "L m B"]
    ) -> tuple[Float[Tensor, "K B L"], Float[Tensor, "K B L"]]:
        """Means and variances of f at some rows, for each Gaussian of the mixture."""
        A = torch.linalg.solve_triangular(R.to(W.dtype).mT, W, upper=True)  # K_mm⁻¹ K_mn
        left = (self.log_amplitude.exp().square()[:, None] - W.square().sum(1)).clamp(min=0)
        mean = torch.einsum("lmb,klm->kbl", W, self.v)
        return mean, left.T + torch.einsum("lmb,klm->kbl", A.square(), self.log_variance.exp())

    def prior_terms(self, R: Float[Tensor, "L m m"]) -> Float[Tensor, ""]:
        """The bound on the entropy of q(u), plus E log p(u)."""
        v, s = self.v.double(), self.log_variance.double().exp()
        weight, log_weight = self.log_weight.double().softmax(0), self.log_weight.double().log_softmax(0)
        log_det = 2 * R.diagonal(dim1=1, dim2=2).log().sum()
        # −½ (log |K| + mᵀ K⁻¹ m + tr K⁻¹ S), and the constants of both terms left out, which cancel
        prior = -0.5 * (log_det + v.square().sum((1, 2)) + (s * inverse_diagonal(R)).sum((1, 2)))
        m = torch.einsum("lpq,klq->klp", R, v)
        both, apart = s[:, None] + s, m[:, None] - m
        log_density = -0.5 * (both.log() + apart.square() / both).sum((2, 3))
        return weight @ (prior - torch.logsumexp(log_weight + log_density, 1))


class MixtureGPClassifier(ClassBaseline):
    """SAVI-GP, on the same inputs as KLSP-GP.

    Parameters
    ----------
    inducing
        Points of each GP, at most; started at centres of k-means, and learned.
    mixture
        Gaussians of the posterior.
    steps, seconds, batch_size, rate
        Budget of Adam, as of KLSP-GP.
    components
        Of images, at most.
    """

    def __init__(
        self,
        inducing: int = 200,
        mixture: int = 2,
        steps: int = 3000,
        seconds: float = 300.0,
        batch_size: int = 1024,
        rate: float = 0.03,
        components: int = COMPONENTS,
    ) -> None:
        self.inducing, self.mixture, self.components = inducing, mixture, components
        self.budget = Budget(steps, seconds, batch_size, rate)
        self.trained = Trained(0, math.nan)

    def fit(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels, seed: int) -> None:
        """Maximise the bound for the whole budget, and keep the state that is best on the validation rows."""
        start = time.process_time()
        labels = torch.tensor(y.astype(np.int64))
        classes = int(max(y.max(), y_held_out.max())) + 1
        if classes < 2:
            raise ValueError("Expected rows of at least two classes for savi_gp, got one.")
        random, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
        self.matrix = input_matrix(X, self.components, seed)
        codes = self.matrix.code(X)
        some = self._expand(codes[random.permutation(len(codes))[:CLUSTERED]])
        lengthscale = max(float(some.var(0, correction=0).sum().sqrt()), 1e-3)
        centres = cluster_centres(some, self.inducing, seed)
        latents = 1 if classes == 2 else classes
        self.process = MixtureProcess(centres, latents, self.mixture, lengthscale, generator)
        judged = random.permutation(len(y_held_out))[:JUDGED]
        held_out_codes, held_out_labels = self.matrix.code(X_held_out)[judged], y_held_out[judged].astype(np.int64)

        def bound(batch: Tensor) -> Tensor:
            R, W = self.process.factors(self._expand(codes[batch.numpy()]))
            mean, variance = self.process.marginals(R, W)
            fits = [sampled_log_likelihood(m, s, labels[batch], generator).mean() for m, s in zip(mean, variance)]
            fit = self.process.log_weight.softmax(0) @ torch.stack(fits)
            return fit + self.process.prior_terms(R) / len(codes)

        def held_out() -> float:
            p = self._probabilities(held_out_codes)
            return float(-np.log(p[np.arange(len(p)), held_out_labels]).mean())

        self.trained = maximise(self.process, bound, held_out, len(codes), self.budget, seed, start)

    def predict_proba(self, X: Inputs) -> Floats:
        """Class probabilities (rows, C)."""
        return self._probabilities(self.matrix.code(X))

    def settings(self) -> dict[str, Any]:
        """Sizes and budget."""
        sizes = {"inducing": self.inducing, "mixture": self.mixture, "samples": TRAINING_SAMPLES}
        return {**sizes, "kernel": "rbf, ARD", **asdict(self.budget)}

    def findings(self) -> dict[str, Any]:
        """How far the budget went, and how the mixture came out."""
        by_time = self.trained.steps < self.budget.steps
        weights = self.process.log_weight.detach().softmax(0).tolist()
        found = {"steps": self.trained.steps, "ended_by_time": by_time, "held_out_nlp": self.trained.score}
        pixels = self.matrix.findings if isinstance(self.matrix, PixelMatrix) else {}
        return {**found, "mixture_weights": weights, **pixels}

    def _expand(self, codes: Floats) -> Tensor:
        return torch.from_numpy(self.matrix.expand(codes))

    @torch.no_grad()
    def _probabilities(self, codes: Floats) -> Floats:
        weights = self.process.log_weight.double().softmax(0)
        blocks = []
        for begin in range(0, len(codes), PREDICTED_AT_ONCE):
            rows = self._expand(codes[begin : begin + PREDICTED_AT_ONCE])
            mean, variance = self.process.marginals(*self.process.factors(rows))
            blocks.append(sum(w * predictive(m, s) for w, m, s in zip(weights, mean, variance)).numpy())
        return np.concatenate(blocks)


def rbf_factors(
    x: Float[Tensor, "B d"],
    inducing: Float[Tensor, "L m d"],
    lengthscale: Float[Tensor, "L d"],
    amplitude: Float[Tensor, "L"],
) -> tuple[Float[Tensor, "L m m"], Float[Tensor, "L m B"]]:
    """R with K_mm = R Rᵀ, in double precision, and W = R⁻¹ K_mn, for RBF kernels with a lengthscale an input."""
    z, variance = inducing / lengthscale[:, None], amplitude.square()[:, None, None]
    eye = torch.eye(z.shape[1], dtype=torch.float64)
    R = torch.linalg.cholesky(
        variance.double() * ((-0.5 * squared_distances(z.double(), z.double())).exp() + JITTER * eye)
    )
    K_mn = variance * (-0.5 * squared_distances(z, x / lengthscale[:, None])).exp()
    return R, torch.linalg.solve_triangular(R.to(x.dtype), K_mn, upper=False)


def squared_distances(a: Float[Tensor, "L m d"], b: Float[Tensor, "L B d"]) -> Float[Tensor, "L m B"]:
    """|a_i − b_j|², by one product of matrices."""
    return (a.square().sum(2)[:, :, None] + b.square().sum(2)[:, None] - 2 * a @ b.mT).clamp(min=0)


def inverse_diagonal(R: Float[Tensor, "L m m"]) -> Float[Tensor, "L m"]:
    """The diagonal of K⁻¹, K = R Rᵀ."""
    eye = torch.eye(R.shape[1], dtype=R.dtype)
    return torch.linalg.solve_triangular(R, eye.expand_as(R), upper=False).square().sum(1)


def sampled_log_likelihood(
    mean: Float[Tensor, "B L"], variance: Float[Tensor, "B L"], labels: Int[Tensor, "B"], generator: torch.Generator
) -> Float[Tensor, "B"]:
    """E log p(y | f) of each row by samples of its marginals: probit for one latent, else softmax."""
    noise = torch.randn(TRAINING_SAMPLES, *mean.shape, generator=generator, dtype=mean.dtype)
    f = mean + standard_deviation(variance) * noise
    if mean.shape[1] == 1:
        return torch.special.log_ndtr((2 * labels - 1) * f[:, :, 0]).mean(0)
    return f.log_softmax(2).mean(0).gather(1, labels[:, None])[:, 0]
