"""What every head offers: it leads from features h to outputs g, and from there to the distribution of y."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from svdkl.gp.additive import HeadState
from svdkl.gp.elbo import ELBO, Part, check_num_data, check_sample_weight
from svdkl.gp.prediction import LatentPoints, Prediction, Uncertainty, predictive_moments, predictive_probabilities
from svdkl.likelihoods import Likelihood
from svdkl.shapes import Float, Tensor


class ParameterRoles(NamedTuple):
    """The parameters of a head by what they do: training gives each role a rate of its own."""

    weights: list[nn.Parameter]  # a layer like the network's, which decays as its weights do
    outputs: list[nn.Parameter]  # mixing, likelihood, ranges: they go on from the network
    posterior: list[nn.Parameter]
    kernels: list[nn.Parameter]


class Head(nn.Module, ABC):
    """From features h (B, Q) to outputs g (B, C) and the distribution of y.

    ``state`` is what all rows share. Whoever asks for many rows part by part computes it once, by :meth:`state`.

    Attributes
    ----------
    likelihood
        p(y | g).
    num_features, num_outputs
        Q and C.
    """

    likelihood: Likelihood
    num_features: int
    num_outputs: int

    @abstractmethod
    def state(self) -> HeadState | None:
        """Compute what all rows share; None if there is nothing."""

    @abstractmethod
    def latents(self, h: Float[Tensor, "B Q"], state: HeadState | None = None) -> LatentPoints:
        """Points that stand for q(g) of each row."""

    @abstractmethod
    def latent_gaussian(
        self, h: Float[Tensor, "B Q"], state: HeadState | None = None
    ) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B C"]]:
        """Mean and variance of g for each row."""

    @abstractmethod
    def latent_draws(
        self,
        h: Float[Tensor, "B Q"],
        num_samples: int,
        generator: torch.Generator | None = None,
        state: HeadState | None = None,
    ) -> Float[Tensor, "T B C"]:
        """Draws of g; each draw is one function of all rows."""

    @abstractmethod
    def elbo(
        self,
        h: Float[Tensor, "B Q"],
        y: Tensor,
        num_data: int | float,
        sample_weight: Tensor | None = None,
        generator: torch.Generator | None = None,
        part: Part | None = None,
    ) -> ELBO:
        """The evidence lower bound per datum, from a minibatch.

        Parameters
        ----------
        y
            Targets; what they are is the likelihood's to say.
        num_data
            N, the number of training rows that this minibatch is from.
        sample_weight
            How many rows each row counts for, (B,).
        generator
            Source of randomness, where samples are needed.
        part
            Where these rows stand in a minibatch that several workers share: with generators alike, their samples are
            then those of the whole minibatch. The bound is this part's own.
        """

    @abstractmethod
    def log_predictive(self, h: Float[Tensor, "B Q"], y: Tensor, state: HeadState | None = None) -> Float[Tensor, "B"]:
        """Return log p(y_i | x_i) for each row."""

    @abstractmethod
    def uncertainty(self, h: Float[Tensor, "B Q"], state: HeadState | None = None) -> Uncertainty:
        """Where the uncertainty of each row's prediction comes from."""

    @abstractmethod
    def roles(self) -> ParameterRoles:
        """All parameters by their role in training."""

    def predict_proba(self, h: Float[Tensor, "B Q"], state: HeadState | None = None) -> Float[Tensor, "B C"]:
        """Class probabilities; deterministic, and no row depends on another."""
        if not self.likelihood.is_classifier:
            raise ValueError(
                f"Expected a likelihood of classes for predict_proba, got {type(self.likelihood).__name__}: use "
                f"predict for the mean and variance of the targets."
            )
        known = state or self.state()
        return self._in_parts(h, lambda part: predictive_probabilities(self.likelihood, self.latents(part, known)))

    def predict(self, h: Float[Tensor, "B Q"], state: HeadState | None = None) -> Prediction:
        """Mean and variance of the targets."""
        if self.likelihood.is_classifier:
            raise ValueError(
                f"Expected a likelihood of real targets or counts for predict, got {type(self.likelihood).__name__}: "
                f"use predict_proba for class probabilities."
            )
        known = state or self.state()
        return self._in_parts(h, lambda part: predictive_moments(self.likelihood, self.latents(part, known)))

    def forward(self, h: Float[Tensor, "B Q"]) -> Float[Tensor, "B C"]:
        """What a linear layer in the head's place would give: logits of the class probabilities, or the targets' mean.

        The softmax or sigmoid of these logits is the predictive probability.
        """
        if self.likelihood.is_classifier:
            return self.likelihood.logits(self.predict_proba(h))
        return self.predict(h).mean

    def _in_parts(self, h: Tensor, function: Callable[..., Any], *others: Tensor) -> Any:
        """Call a function of rows on as many rows at a time as there is room for."""
        return function(h, *others)

    def _minibatch_targets(
        self, y: Tensor, num_rows: int, num_data: int | float, sample_weight: Tensor | None
    ) -> Tensor:
        """The targets as the likelihood takes them; a ValueError for a minibatch that has no bound."""
        if num_rows == 0:
            raise ValueError("Expected at least one row to estimate the bound on, got none.")
        y = self.likelihood.targets(y, num_rows)
        if not torch.compiler.is_compiling():
            self.likelihood.check_range(y)
            check_num_data(num_data)
        if sample_weight is not None:
            check_sample_weight(sample_weight, num_rows)
        return y
