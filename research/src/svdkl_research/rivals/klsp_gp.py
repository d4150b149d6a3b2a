"""KLSP-GP: a sparse variational GP classifier on the inputs themselves (Hensman et al., 2015), with RBF-ARD kernels.

Expectations under the probit are by quadrature or in closed form; under the softmax they are averages over samples of
each row's marginal. We do not use gpytorch's softmax likelihood, since it mistakes a minibatch with as many rows as
classes for its transpose.
"""

import torch

from svdkl.gp.quadrature import expectation_1d, standard_deviation
from svdkl.shapes import Float, Int, Tensor
from svdkl_research.rivals.matrix import COMPONENTS
from svdkl_research.rivals.sparse_classifier import TRAINING_SAMPLES, SparseClassifier, predictive
from svdkl_research.rivals.sparse_gp import InducingGPs, StepBudget, rbf_gps


class SparseGPClassifier(SparseClassifier):
    """KLSP-GP: GPs with inducing points, trained on minibatches by the variational bound.

    Parameters
    ----------
    inducing
        Most inducing points of each GP. They start at centres of k-means and are learned.
    steps, seconds
        Training ends when either is used up. The learning rate goes down by a cosine towards that end.
    batch_size, rate
        Minibatch size and first learning rate of Adam.
    components
        Most principal components that stand for an image.
    """

    name = "klsp_gp"
    gps: InducingGPs

    def __init__(
        self,
        inducing: int = 200,
        steps: int = 3000,
        seconds: float = 300.0,
        batch_size: int = 1024,
        rate: float = 0.03,
        components: int = COMPONENTS,
    ) -> None:
        super().__init__(inducing, components, StepBudget(steps, seconds, batch_size, rate))

    def _begin(self, centres: Tensor, latents: int, lengthscale: float, generator: torch.Generator) -> InducingGPs:
        return rbf_gps(centres, latents, lengthscale)

    def _bound(self, x: Tensor, labels: Tensor, num_rows: int, generator: torch.Generator) -> Tensor:
        fit = expected_log_likelihood(*self._latents(x), labels, generator).mean()
        return fit - self.gps.variational_strategy.kl_divergence().sum() / num_rows

    def _predict(self, x: Tensor) -> Tensor:
        return predictive(*self._latents(x))

    def _latents(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return marginal means and variances, shape (rows, latents)."""
        latent = self.gps(x)
        return latent.mean.T, latent.variance.T


def expected_log_likelihood(
    mean: Float[Tensor, "B L"], variance: Float[Tensor, "B L"], labels: Int[Tensor, "B"], generator: torch.Generator
) -> Float[Tensor, "B"]:
    """Return E log p(y | f) of each row, f ~ N(mean, diag variance)."""
    if mean.shape[1] == 1:
        sign = (2 * labels - 1)[:, None]
        return expectation_1d(lambda f: torch.special.log_ndtr(sign * f), mean, variance)[:, 0]
    noise = torch.randn(TRAINING_SAMPLES, *mean.shape, generator=generator)
    log_p = (mean + standard_deviation(variance) * noise).log_softmax(2).mean(0)
    return log_p.gather(1, labels[:, None])[:, 0]
