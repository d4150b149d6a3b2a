"""The network with its own last layer: stage 1 of the recipe, and the baseline that a head is measured against."""

import copy
from typing import Any

import torch
from torch import nn

from svdkl.gp.prediction import LatentPoints, predictive_probabilities
from svdkl.likelihoods import Likelihood
from svdkl.shapes import Float, Tensor


class PlainNet(nn.Module):
    """g = layer(net(x)), with the same likelihood that the head will have, so that both learn the same things.

    Parameters
    ----------
    extra
        Whether the last layer is preceded by one more, the paper's "+".
    identity
        Whether the network's features are the outputs themselves, so that the layer only passes them on.
    """

    _best_to_scale: dict[str, Tensor] | None = None

    def __init__(
        self,
        net: nn.Module,
        num_features: int,
        num_outputs: int,
        likelihood: Likelihood,
        extra: bool = False,
        identity: bool = False,
    ) -> None:
        super().__init__()
        self.net = net
        # The paper's "+" networks have one more layer of Q x C before the output.
        layers: list[Any] = [nn.Linear(num_features, num_outputs)]
        if extra:
            # Of two rectified units both can die, and the network with them; leaky ones cannot.
            layers += [nn.LeakyReLU(), nn.Linear(num_outputs, num_outputs)]
        self.layer = nn.Sequential(*layers)
        if identity:
            nn.init.eye_(layers[0].weight)
            nn.init.zeros_(layers[0].bias)
            self.layer.requires_grad_(False)
        self.likelihood = likelihood

    def keep_best_to_scale(self, state: dict[str, Tensor] | None) -> None:
        """Remember the state at the epoch that is best once outputs are scaled to held-out rows, if it is another.

        It is no part of what is saved: a model that was loaded has the one epoch that it was saved with.
        """
        self._best_to_scale = state

    def best_to_scale(self) -> "PlainNet":
        """The network of that epoch: what a temperature or Gaussian processes are fitted to. A copy, or itself."""
        state = self._best_to_scale
        if state is None:
            return self
        network = copy.copy(self)
        network._best_to_scale = None
        network = copy.deepcopy(network)
        network.load_state_dict(state)
        return network

    def probabilities(self, x: Tensor) -> Float[Tensor, "B C"]:
        """Of all classes, for a likelihood that has them."""
        return predictive_probabilities(self.likelihood, self.latents(x))

    def latents(self, x: Tensor) -> LatentPoints:
        """The one point that stands for g, or for the contrasts of g."""
        g = self.layer(self.net(x))
        contrasts = self.likelihood.contrasts(g)
        points = g if contrasts is None else g @ contrasts.T
        return LatentPoints(points.unsqueeze(0), torch.ones(1, dtype=g.dtype, device=g.device))

    def log_predictive(self, x: Tensor, y: Tensor) -> Float[Tensor, "B"]:
        """Log p(y_i | x_i) of each row."""
        latents = self.latents(x)
        return self.likelihood.log_prob(latents.points[0], self.likelihood.targets(y, len(x))).sum(-1)
