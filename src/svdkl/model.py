"""The whole model: a network and a Gaussian process head, trained jointly."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm

from svdkl.gp.elbo import ELBO, Part
from svdkl.gp.familiarity import MOST_ROWS
from svdkl.gp.head import GPHead
from svdkl.gp.prediction import Prediction, Uncertainty
from svdkl.likelihoods import LikelihoodLike
from svdkl.shapes import Float, Tensor


class SVDKL(nn.Module):
    """Stochastic variational deep kernel learning: ``head(net(x))``.

    Parameters
    ----------
    net
        Any module from inputs to features of shape (B, Q).
    num_features, num_outputs, likelihood
        Q, C and p(y | g), as of :class:`~svdkl.gp.head.GPHead`.
    **head_options
        The other options of :class:`~svdkl.gp.head.GPHead`.

    Examples
    --------
    >>> x, y = torch.randn(100, 8), torch.randint(2, (100,))
    >>> net = MLP(in_features=8, hidden=(64,), out_features=10)
    >>> model = SVDKL(net, num_features=10, num_outputs=2)
    >>> (-model.elbo(x, y, num_data=len(x)).value).backward()
    >>> model.predict_proba(x).shape
    torch.Size([100, 2])
    """

    def __init__(
        self,
        net: nn.Module,
        num_features: int,
        num_outputs: int,
        likelihood: LikelihoodLike = "softmax",
        **head_options: Any,
    ) -> None:
        super().__init__()
        self.net = net
        self.head = GPHead(num_features, num_outputs, likelihood, **head_options)

    @classmethod
    def from_parts(cls, net: nn.Module, head: GPHead) -> "SVDKL":
        """A model of a given network and head."""
        model = cls.__new__(cls)
        nn.Module.__init__(model)
        model.net, model.head = net, head
        return model

    @torch.no_grad()
    def set_ranges(self, x: Tensor) -> None:
        """Fit the lattice to the features of a sample of inputs: once, before training from scratch.

        Batch normalisation that has seen no batch yet takes this one's statistics, as it will in training.
        """
        new = [layer for layer in self.net.modules() if isinstance(layer, BatchNorm) and layer.num_batches_tracked == 0]
        for layer in new:
            layer.track_running_stats = False  # nothing is learned here
        try:
            self.head.bounding.set_ranges(self._features_in_use(x, in_training=new))
        finally:
            for layer in new:
                layer.track_running_stats = True

    @torch.no_grad()
    def remember(self, x: Tensor) -> None:
        """Let ``ood_score`` know which features come together, from a thousand rows in random order, after training."""
        self.head.familiarity.remember(self._features_in_use(x[:MOST_ROWS]))

    def _features_in_use(self, x: Tensor, in_training: Sequence[nn.Module] = ()) -> Tensor:
        """Features as predictions see them: without dropout, and without moving what normalisation has learned."""
        modes = [(module, module.training) for module in self.net.modules()]
        self.net.eval()
        for layer in in_training:
            layer.train()
        try:
            return self.net(x)
        finally:
            for module, mode in modes:
                module.training = mode

    def elbo(
        self,
        x: Tensor,
        y: Tensor,
        num_data: int | float,
        sample_weight: Tensor | None = None,
        generator: torch.Generator | None = None,
        part: Part | None = None,
    ) -> ELBO:
        """The evidence lower bound per datum; see :meth:`svdkl.gp.head.GPHead.elbo`."""
        return self.head.elbo(self.net(x), y, num_data, sample_weight, generator, part)

    def forward(
        self,
        x: Tensor,
        y: Tensor | None = None,
        num_data: int | float | None = None,
        sample_weight: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor | ELBO:
        """With targets, the ELBO; without, what a plain network would give: logits of the class probabilities, or
        the mean of the targets.

        Training calls the module itself, so that wrappers such as DistributedDataParallel see the whole loss.
        """
        if y is None:
            return self.head(self.net(x))
        if num_data is None:
            raise ValueError("Expected num_data, the number of training rows, beside the targets; got none.")
        return self.elbo(x, y, num_data, sample_weight, generator)

    def predict_proba(self, x: Tensor) -> Float[Tensor, "B C"]:
        """Class probabilities; rows sum to 1 and do not depend on each other."""
        return self.head.predict_proba(self.net(x))

    def predict(self, x: Tensor) -> Prediction:
        """Mean and variance of real targets or counts."""
        return self.head.predict(self.net(x))

    def log_predictive(self, x: Tensor, y: Tensor) -> Float[Tensor, "B"]:
        """Log p(y_i | x_i) of each row."""
        return self.head.log_predictive(self.net(x), y)

    def uncertainty(self, x: Tensor) -> Uncertainty:
        """Where the uncertainty of each prediction comes from."""
        return self.head.uncertainty(self.net(x))

    def kernel_matrix(self, x: Tensor, other: Tensor, gp: int) -> Float[Tensor, "B B2"]:
        """The deep kernel of one GP between two sets of inputs."""
        return self.head.kernel_matrix(self.net(x), self.net(other), gp)

    def latent_covariance(self, x: Tensor, other: Tensor, gp: int) -> Float[Tensor, "B B2"]:
        """Posterior covariance of one GP between two sets of inputs."""
        return self.head.latent_covariance(self.net(x), self.net(other), gp)
