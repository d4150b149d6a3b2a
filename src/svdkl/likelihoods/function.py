"""Any likelihood that torch.distributions can express."""

from collections.abc import Callable

import torch
from torch.distributions import Categorical, Distribution

from svdkl.likelihoods.base import Likelihood, require
from svdkl.shapes import Float, Tensor


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
