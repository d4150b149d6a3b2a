"""The interface of likelihoods, and one for any distribution of torch.distributions.

A likelihood acts on *latents*: linear combinations of the outputs g, one set a row. Where each term of log p(y | g)
depends on a single Gaussian latent, `contrasts` names those combinations, and expectations are one-dimensional
integrals: closed forms or Gauss-Hermite. Where it is None, the latents are g itself, and expectations are averages over
samples. The softmax of two classes, for example, depends on g_1 - g_0 alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import nn
from torch.distributions import Categorical, Distribution

from svdkl.gp.quadrature import expectation_1d, log_expectation_1d
from svdkl.shapes import Float, Tensor


class Likelihood(nn.Module, ABC):
    """The likelihood p(y | g) of C outputs, a module that holds its own parameters."""

    is_classifier = False  # y is a label
    is_real = False  # y is g + noise

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        self.num_outputs = num_outputs

    def contrasts(self, like: Tensor) -> Float[Tensor, "P C"] | None:
        """Return combinations of g such that each term of log p(y | g) sees one of them; None if there are none."""
        return torch.eye(self.num_outputs, dtype=like.dtype, device=like.device)

    def targets(self, y: Tensor, num_rows: int) -> Tensor:
        """Return targets as :meth:`log_prob` takes them, by default (B, C), or raise a ValueError."""
        if y.shape == (num_rows,) and self.num_outputs == 1:
            y = y.unsqueeze(-1)
        if y.shape != (num_rows, self.num_outputs):
            shapes = f"({num_rows}, {self.num_outputs})" + (f" or ({num_rows},)" if self.num_outputs == 1 else "")
            raise ValueError(f"Expected targets of shape {shapes}, got {tuple(y.shape)}.")
        return y

    @abstractmethod
    def check_range(self, y: Tensor) -> None:
        """Raise a ValueError if a target has probability zero. It reads values, so traced code must not call it."""

    @abstractmethod
    def log_prob(self, latent: Float[Tensor, "*T B P"], y: Tensor) -> Float[Tensor, "*T B P_y"]:
        """Return the independent terms, last dimension, whose sum is log p(y | latent) of the row."""

    @abstractmethod
    def predictive_terms(self, latent: Float[Tensor, "*T B P"]) -> tuple[Tensor, Tensor]:
        """Return mean and variance of y given the latents; for classes, the probabilities and their entropy."""

    def predictive_mean(self, latent: Float[Tensor, "*T B P"]) -> Tensor:
        """Return the mean of y given the latents, or class probabilities."""
        return self.predictive_terms(latent)[0]

    def start_outputs(self, y: Tensor, weight: Float[Tensor, "B"] | None) -> Float[Tensor, "C"] | None:
        """Return outputs at which a network should start for these targets; None where it does not matter."""
        return None

    def set_noise(self, variance: Float[Tensor, "C"]) -> None:
        """Set the variance of the noise of real targets."""
        raise NotImplementedError(f"{type(self).__name__} has no noise of its own")

    def entropy(self, probabilities: Float[Tensor, "*T B K"]) -> Float[Tensor, "*T B"]:
        """Return the entropy, in nats, of labels with these probabilities."""
        return torch.special.entr(probabilities).sum(-1)

    def logits(self, probabilities: Float[Tensor, "B K"]) -> Float[Tensor, "B C"]:
        """Return outputs of a plain classifier with these probabilities; finite also where one is rounded to 0."""
        return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()

    def expected_log_prob(
        self, mean: Float[Tensor, "B P"], variance: Float[Tensor, "B P"], y: Tensor
    ) -> Float[Tensor, "B"]:
        """Return E log p(y | latent) for Gaussian contrasts, by Gauss-Hermite unless overridden."""
        return expectation_1d(lambda latent: self.log_prob(latent, y), mean, variance).sum(-1)

    def log_marginal(self, mean: Float[Tensor, "B P"], variance: Float[Tensor, "B P"], y: Tensor) -> Float[Tensor, "B"]:
        """Return log E p(y | latent) for Gaussian contrasts, summed over the terms: Gauss-Hermite unless overridden."""
        return log_expectation_1d(lambda latent: self.log_prob(latent, y), mean, variance).sum(-1)


def require(condition: Tensor, y: Tensor, expected: str) -> None:
    """Raise a ValueError that names the first target for which the condition does not hold."""
    if not bool(condition.all()):
        raise ValueError(f"Expected {expected}, got {y[~condition][0].item()}.")


class FunctionLikelihood(Likelihood):
    """The likelihood y ~ function(g), for a function from outputs (..., B, C) to a distribution over (..., B) targets.

    So two outputs can be the mean and the log noise of one target, say. Expectations are averages over samples.
    """

    def __init__(self, num_outputs: int, function: Callable[[Tensor], Distribution]) -> None:
        super().__init__(num_outputs)
        self.function = function
        example = function(torch.zeros(1, num_outputs))
        if not isinstance(example, Distribution):
            raise ValueError(
                f"Expected a likelihood function that returns a torch.distributions.Distribution, got one that returns "
                f"{type(example).__name__}."
            )
        self.target_shape = (*example.batch_shape[1:], *example.event_shape)
        self.is_classifier = isinstance(example, Categorical)
        self.num_classes = example.logits.shape[-1] if isinstance(example, Categorical) else 0

    def contrasts(self, like: Tensor) -> Float[Tensor, "P C"] | None:
        """Return None, as we know nothing of the function."""
        return None

    def targets(self, y: Tensor, num_rows: int) -> Tensor:
        """Return targets of the distribution's own shape in each row."""
        if y.shape != (num_rows, *self.target_shape):
            raise ValueError(f"Expected targets of shape {(num_rows, *self.target_shape)}, got {tuple(y.shape)}.")
        return y

    def check_range(self, y: Tensor) -> None:
        """Refuse infinite targets, and labels that do not exist; the distribution itself may refuse more."""
        if self.num_classes:
            require((y >= 0) & (y < self.num_classes), y, f"labels from 0 to {self.num_classes - 1}")
        require(y.isfinite(), y, "finite targets")

    def log_prob(self, latent: Float[Tensor, "*T B P"], y: Tensor) -> Float[Tensor, "*T B P_y"]:
        """Return the distribution's log probability of each row, summed over dimensions beyond the rows."""
        value = self.function(latent).log_prob(y)
        rows = latent.dim() - 1
        return value.flatten(rows).sum(-1, keepdim=True) if value.dim() > rows else value.unsqueeze(-1)

    def predictive_terms(self, latent: Float[Tensor, "*T B P"]) -> tuple[Tensor, Tensor]:
        """Return mean and variance; for a categorical distribution probabilities and entropy."""
        distribution = self.function(latent)
        if isinstance(distribution, Categorical):
            return distribution.probs, self.entropy(distribution.probs)
        rows = latent.dim() - 1
        mean, variance = distribution.mean, distribution.variance
        return (mean, variance) if mean.dim() > rows else (mean.unsqueeze(-1), variance.unsqueeze(-1))
