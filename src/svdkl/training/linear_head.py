"""A linear layer as a head: the last layer of a plain network, stage 1 of the recipe, the baseline of GP heads."""

import torch
from torch import nn

from svdkl.gp.elbo import ELBO, Part, evidence_lower_bound
from svdkl.gp.head_protocol import Head, ParameterRoles
from svdkl.gp.prediction import LatentPoints, Uncertainty
from svdkl.likelihoods import LikelihoodLike, build_likelihood
from svdkl.shapes import Float, Tensor


class LinearHead(Head):
    """g = A h + b, known exactly: a network with this head is an ordinary network.

    It has the likelihood that a GP head would have, so that both learn the same things.

    Parameters
    ----------
    num_features, num_outputs
        Q and C.
    likelihood
        p(y | g), as :class:`~svdkl.gp.head.GPHead` takes it.
    """

    def __init__(self, num_features: int, num_outputs: int, likelihood: LikelihoodLike = "softmax") -> None:
        super().__init__()
        self.num_features, self.num_outputs = num_features, num_outputs
        self.mixing = nn.Linear(num_features, num_outputs)
        self.likelihood = build_likelihood(likelihood, num_outputs)

    @classmethod
    def fixed(cls, num_outputs: int, likelihood: LikelihoodLike = "softmax") -> "LinearHead":
        """Build the head g = h, which is not trained: for networks that end in the outputs themselves."""
        head = cls(num_outputs, num_outputs, likelihood)
        nn.init.eye_(head.mixing.weight)
        nn.init.zeros_(head.mixing.bias)
        head.mixing.requires_grad_(False)
        return head

    def state(self) -> None:
        """None: nothing is shared by all rows."""

    def latents(self, h: Float[Tensor, "B Q"], state: object = None) -> LatentPoints:
        """The one point that stands for g, or for the contrasts of g."""
        g = self.mixing(h)
        contrasts = self.likelihood.contrasts(g)
        points = g if contrasts is None else g @ contrasts.T
        return LatentPoints(points.unsqueeze(0), torch.ones(1, dtype=g.dtype, device=g.device))

    def latent_gaussian(
        self, h: Float[Tensor, "B Q"], state: object = None
    ) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B C"]]:
        """Mean and variance of g for each row; the variance is 0."""
        g = self.mixing(h)
        return g, torch.zeros_like(g)

    def latent_draws(
        self,
        h: Float[Tensor, "B Q"],
        num_samples: int,
        generator: torch.Generator | None = None,
        state: object = None,
    ) -> Float[Tensor, "T B C"]:
        """Draws of g, which are all alike."""
        return self.mixing(h).expand(num_samples, -1, -1)

    def elbo(
        self,
        h: Float[Tensor, "B Q"],
        y: Tensor,
        num_data: int | float,
        sample_weight: Tensor | None = None,
        generator: torch.Generator | None = None,
        part: Part | None = None,
    ) -> ELBO:
        """The mean log likelihood per datum: with nothing to be uncertain of, the KL divergence is 0."""
        y = self._minibatch_targets(y, len(h), num_data, sample_weight)
        return evidence_lower_bound(self._log_prob(h, y), h.new_zeros(1), num_data, sample_weight)

    def log_predictive(self, h: Float[Tensor, "B Q"], y: Tensor, state: object = None) -> Float[Tensor, "B"]:
        """Return log p(y_i | x_i) for each row."""
        y = self.likelihood.targets(y, len(h))
        self.likelihood.check_range(y)
        return self._log_prob(h, y)

    def uncertainty(self, h: Float[Tensor, "B Q"], state: object = None) -> Uncertainty:
        """A ValueError: a linear head does not know what it does not know."""
        raise ValueError(
            "Expected a head of Gaussian processes to split the uncertainty of a prediction, got a LinearHead: use "
            "GPHead."
        )

    def roles(self) -> ParameterRoles:
        """All parameters by their role in training."""
        weights, outputs = list(self.mixing.parameters()), list(self.likelihood.parameters())
        return ParameterRoles(weights=weights, outputs=outputs, posterior=[], kernels=[])

    def _log_prob(self, h: Float[Tensor, "B Q"], y: Tensor) -> Float[Tensor, "B"]:
        return self.likelihood.log_prob(self.latents(h).points[0], y).sum(-1)
