"""What a likelihood has to say.

A likelihood acts on *latents*: linear combinations of the outputs g, one set a row. Where each term of log p(y | g)
depends on a single Gaussian latent, `contrasts` names those combinations, and expectations are one-dimensional
integrals: closed forms or Gauss-Hermite. Where it is None, the latents are g itself, and expectations are averages over
samples. The softmax of two classes, for example, depends on g_1 - g_0 alone.

Any likelihood that torch.distributions can express.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import nn
from torch.distributions import Categorical, Distribution

from svdkl.gp.quadrature import expectation_1d, log_expectation_1d
from svdkl.shapes import Float, Tensor


class Likelihood(nn.Module, ABC):
    """p(y | g) for C outputs, with what parameters it needs."""

    is_classifier = False
    is_real = False  # y = g + noise

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        self.num_outputs = num_outputs

    def contrasts(self, like: Tensor) -> Float[Tensor, "P C"] | None:
        """Combinations of g of which each term of log p(y | g) sees one; None if there are none."""
        return torch.eye(self.num_outputs, dtype=like.dtype, device=like.device)

    @abstractmethod
    def targets(self, y: Tensor, num_rows: int) -> Tensor:
        """The targets in the shape and type that :meth:`log_prob` takes; a ValueError if they cannot be."""

    @abstractmethod
    def check_range(self, y: Tensor) -> None:
        """A ValueError if a target is none that this likelihood can produce. Reads the values, so not when traced."""

    @abstractmethod
    def log_prob(self, latent: Float[Tensor, "*T B P"], y: Tensor) -> Float[Tensor, "*T B P_y"]:
        """Log p(y | latent) by independent terms, the last dimension; their sum is that of the row."""

    @abstractmethod
    def predictive_terms(self, latent: Float[Tensor, "*T B P"]) -> tuple[Tensor, Tensor]:
        """Mean and variance of y given the latents; for classes, the probabilities and their entropy."""

    def predictive_mean(self, latent: Float[Tensor, "*T B P"]) -> Tensor:
        """The first of these, where the second is not wanted."""
        return self.predictive_terms(latent)[0]

    def start_outputs(self, y: Tensor, weight: Float[Tensor, "B"] | None) -> Float[Tensor, "C"] | None:
        """Outputs to start a network at, for these targets; None where it does not matter."""
        return None

    def set_noise(self, variance: Float[Tensor, "C"]) -> None:
        """Give the noise of real targets this variance."""
        raise NotImplementedError(f"{type(self).__name__} has no noise of its own")

    def entropy(self, probabilities: Float[Tensor, "*T B K"]) -> Float[Tensor, "*T B"]:
        """Entropy in nats of the labels that a classifier gives these probabilities."""
        return torch.special.entr(probabilities).sum(-1)

    def logits(self, probabilities: Float[Tensor, "B K"]) -> Float[Tensor, "B C"]:
        """Outputs of a plain classifier with these probabilities; finite also where a probability has underflown."""
        return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()

    def expected_log_prob(
        self, mean: Float[Tensor, "B P"], variance: Float[Tensor, "B P"], y: Tensor
    ) -> Float[Tensor, "B"]:
        """E log p(y | latent) for Gaussian latents, where there are contrasts: Gauss-Hermite unless overridden."""
        return expectation_1d(lambda latent: self.log_prob(latent, y), mean, variance).sum(-1)

    def log_marginal(self, mean: Float[Tensor, "B P"], variance: Float[Tensor, "B P"], y: Tensor) -> Float[Tensor, "B"]:
        """Log E p(y | latent) for Gaussian latents, summed over the terms: Gauss-Hermite unless overridden."""
        return log_expectation_1d(lambda latent: self.log_prob(latent, y), mean, variance).sum(-1)


def real_targets(y: Tensor, num_rows: int, num_outputs: int) -> Tensor:
    """Targets of C real outputs as (B, C); (B,) will do for C = 1."""
    if y.shape == (num_rows,) and num_outputs == 1:
        y = y.unsqueeze(-1)
    if y.shape != (num_rows, num_outputs):
        alternative = f" or ({num_rows},)" if num_outputs == 1 else ""
        raise ValueError(f"Expected targets of shape ({num_rows}, {num_outputs}){alternative}, got {tuple(y.shape)}.")
    return y


def require(condition: Tensor, y: Tensor, expected: str) -> None:
    """Raise in one sentence, naming the first target that is not as expected."""
    if not bool(condition.all()):
        raise ValueError(f"Expected {expected}, got {y[~condition][0].item()}.")


class FunctionLikelihood(Likelihood):
    """y ~ function(g), for a function that turns outputs (..., B, C) into a distribution over (..., B) targets.

    Two outputs can so be the mean and the log noise of one target, say. Expectations are averages over samples.
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
        """None: nothing is known of the function."""
        return None

    def targets(self, y: Tensor, num_rows: int) -> Tensor:
        """One target, or one tensor of targets, a row: as the distribution has it."""
        if y.shape != (num_rows, *self.target_shape):
            raise ValueError(f"Expected targets of shape {(num_rows, *self.target_shape)}, got {tuple(y.shape)}.")
        return y

    def check_range(self, y: Tensor) -> None:
        """Finite targets; labels of a categorical distribution. The distribution itself may say more."""
        if self.num_classes:
            require((y >= 0) & (y < self.num_classes), y, f"labels from 0 to {self.num_classes - 1}")
        require(y.isfinite(), y, "finite targets")

    def log_prob(self, latent: Float[Tensor, "*T B P"], y: Tensor) -> Float[Tensor, "*T B P_y"]:
        """The distribution's own; what it leaves beyond the rows is summed."""
        value = self.function(latent).log_prob(y)
        rows = latent.dim() - 1
        return value.flatten(rows).sum(-1, keepdim=True) if value.dim() > rows else value.unsqueeze(-1)

    def predictive_terms(self, latent: Float[Tensor, "*T B P"]) -> tuple[Tensor, Tensor]:
        """Mean and variance; probabilities and entropy of a categorical distribution."""
        distribution = self.function(latent)
        if isinstance(distribution, Categorical):
            return distribution.probs, self.entropy(distribution.probs)
        rows = latent.dim() - 1
        mean, variance = distribution.mean, distribution.variance
        return (mean, variance) if mean.dim() > rows else (mean.unsqueeze(-1), variance.unsqueeze(-1))
