"""SAVI-GP: a sparse GP classifier with a mixture of diagonal Gaussians as its posterior (Dezfouli and Bonilla, 2015).

    q(u) = Σ_k π_k Π_l N(u_l; m_kl, diag s_kl),   l over the latent GPs, one a class, or one for two classes

The bound is that on the mixture's entropy, −Σ_k π_k log Σ_j π_j N(m_k; m_j, S_k + S_j), plus E log p(u), plus the
expected log likelihood of the rows. The latter asks the likelihood for nothing but its values, at samples of each row's
univariate marginals; the samples move with the marginals, so that their gradients need no control variates.
"""

import math
from typing import Any

import torch
from torch import nn

from svdkl.gp.quadrature import standard_deviation
from svdkl.shapes import Float, Int, Tensor
from svdkl_research.rivals.matrix import COMPONENTS
from svdkl_research.rivals.sparse_classifier import TRAINING_SAMPLES, SparseClassifier, predictive
from svdkl_research.rivals.sparse_gp import StepBudget

JITTER = 1e-5  # share of the kernel's variance that is added to the diagonal
APART = 0.1  # distance of the mixture's first means, in standard deviations of the prior: equal ones stay equal


class MixtureGPs(nn.Module):
    """L sparse GPs, each with an RBF kernel, and a mixture of K diagonal Gaussians over their inducing values.

    The means m = R v with K_mm = R Rᵀ are kept whitened, as v, since steps in v suit all directions alike. Variances
    belong to the inducing values themselves, as in the paper.
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
            # These variances bring a diagonal Gaussian nearest to the prior.
            self.log_variance = nn.Parameter(-inverse_diagonal(R).log().float().expand(mixture, -1, -1).clone())

    def factors(self, x: Float[Tensor, "B d"]) -> tuple[Float[Tensor, "L m m"], Float[Tensor, "L m B"]]:
        """Return R with K_mm = R Rᵀ, in double precision, and W = R⁻¹ K_mn."""
        return rbf_factors(x, self.inducing, self.log_lengthscale.exp(), self.log_amplitude.exp())

    def marginals(
        self, R: Float[Tensor, "L m m"], W: Float[Tensor, "L m B"]
    ) -> tuple[Float[Tensor, "K B L"], Float[Tensor, "K B L"]]:
        """Return means and variances of f at some rows, for each Gaussian of the mixture."""
        A = torch.linalg.solve_triangular(R.to(W.dtype).mT, W, upper=True)  # K_mm⁻¹ K_mn
        left = (self.log_amplitude.exp().square()[:, None] - W.square().sum(1)).clamp(min=0)
        mean = torch.einsum("lmb,klm->kbl", W, self.v)
        return mean, left.T + torch.einsum("lmb,klm->kbl", A.square(), self.log_variance.exp())

    def prior_terms(self, R: Float[Tensor, "L m m"]) -> Float[Tensor, ""]:
        """Return the bound on the entropy of q(u), plus E log p(u)."""
        v, s = self.v.double(), self.log_variance.double().exp()
        weight, log_weight = self.log_weight.double().softmax(0), self.log_weight.double().log_softmax(0)
        log_det = 2 * R.diagonal(dim1=1, dim2=2).log().sum()
        # −½ (log |K| + mᵀ K⁻¹ m + tr K⁻¹ S), without the constants of both terms, which cancel
        prior = -0.5 * (log_det + v.square().sum((1, 2)) + (s * inverse_diagonal(R)).sum((1, 2)))
        m = torch.einsum("lpq,klq->klp", R, v)
        both, apart = s[:, None] + s, m[:, None] - m
        log_density = -0.5 * (both.log() + apart.square() / both).sum((2, 3))
        return weight @ (prior - torch.logsumexp(log_weight + log_density, 1))


class MixtureGPClassifier(SparseClassifier):
    """SAVI-GP: GPs with inducing points whose posterior is a mixture of Gaussians.

    Parameters
    ----------
    inducing
        Most inducing points of each GP. They start at centres of k-means and are learned.
    mixture
        Number of Gaussians in the posterior.
    steps, seconds, batch_size, rate
        Budget of Adam, as for KLSP-GP.
    components
        Most principal components that stand for an image.
    """

    name = "savi_gp"
    gps: MixtureGPs

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
        super().__init__(inducing, components, StepBudget(steps, seconds, batch_size, rate))
        self.mixture = mixture

    def settings(self) -> dict[str, Any]:
        """Return sizes and budget."""
        return {"mixture": self.mixture, "samples": TRAINING_SAMPLES, **super().settings()}

    def findings(self) -> dict[str, Any]:
        """Return the steps taken, whether time ended them, and the mixture's weights."""
        weights = self.gps.log_weight.detach().softmax(0).tolist()
        return {**super().findings(), "mixture_weights": weights}

    def _begin(self, centres: Tensor, latents: int, lengthscale: float, generator: torch.Generator) -> MixtureGPs:
        return MixtureGPs(centres, latents, self.mixture, lengthscale, generator)

    def _bound(self, x: Tensor, labels: Tensor, num_rows: int, generator: torch.Generator) -> Tensor:
        R, W = self.gps.factors(x)
        mean, variance = self.gps.marginals(R, W)
        fits = [sampled_log_likelihood(m, s, labels, generator).mean() for m, s in zip(mean, variance)]
        fit = self.gps.log_weight.softmax(0) @ torch.stack(fits)
        return fit + self.gps.prior_terms(R) / num_rows

    def _predict(self, x: Tensor) -> Tensor:
        weights = self.gps.log_weight.double().softmax(0)
        mean, variance = self.gps.marginals(*self.gps.factors(x))
        return torch.stack([w * predictive(m, s) for w, m, s in zip(weights, mean, variance)]).sum(0)


def rbf_factors(
    x: Float[Tensor, "B d"],
    inducing: Float[Tensor, "L m d"],
    lengthscale: Float[Tensor, "L d"],
    amplitude: Float[Tensor, "L"],
) -> tuple[Float[Tensor, "L m m"], Float[Tensor, "L m B"]]:
    """Return R with K_mm = R Rᵀ, in double precision, and W = R⁻¹ K_mn, for RBF kernels with a lengthscale an input."""
    z, variance = inducing / lengthscale[:, None], amplitude.square()[:, None, None]
    eye = torch.eye(z.shape[1], dtype=torch.float64)
    R = torch.linalg.cholesky(
        variance.double() * ((-0.5 * squared_distances(z.double(), z.double())).exp() + JITTER * eye)
    )
    K_mn = variance * (-0.5 * squared_distances(z, x / lengthscale[:, None])).exp()
    return R, torch.linalg.solve_triangular(R.to(x.dtype), K_mn, upper=False)


def squared_distances(a: Float[Tensor, "L m d"], b: Float[Tensor, "L B d"]) -> Float[Tensor, "L m B"]:
    """Return |a_i − b_j|² for all pairs, by one product of matrices."""
    return (a.square().sum(2)[:, :, None] + b.square().sum(2)[:, None] - 2 * a @ b.mT).clamp(min=0)


def inverse_diagonal(R: Float[Tensor, "L m m"]) -> Float[Tensor, "L m"]:
    """Return the diagonal of K⁻¹, K = R Rᵀ."""
    eye = torch.eye(R.shape[1], dtype=R.dtype)
    return torch.linalg.solve_triangular(R, eye.expand_as(R), upper=False).square().sum(1)


def sampled_log_likelihood(
    mean: Float[Tensor, "B L"], variance: Float[Tensor, "B L"], labels: Int[Tensor, "B"], generator: torch.Generator
) -> Float[Tensor, "B"]:
    """Estimate E log p(y | f) of each row by samples of its marginals: probit for one latent, else softmax."""
    noise = torch.randn(TRAINING_SAMPLES, *mean.shape, generator=generator, dtype=mean.dtype)
    f = mean + standard_deviation(variance) * noise
    if mean.shape[1] == 1:
        return torch.special.log_ndtr((2 * labels - 1) * f[:, :, 0]).mean(0)
    return f.log_softmax(2).mean(0).gather(1, labels[:, None])[:, 0]
