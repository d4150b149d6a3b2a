"""The whole model: a network and a head, trained jointly."""

from collections.abc import Sequence
from typing import Any, overload

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm

from svdkl.gp.elbo import ELBO, Part
from svdkl.gp.familiarity import MOST_ROWS
from svdkl.gp.head import GPHead
from svdkl.gp.head_protocol import Head
from svdkl.gp.prediction import Prediction, Uncertainty
from svdkl.likelihoods import LikelihoodLike
from svdkl.shapes import Float, Tensor


class SVDKL(nn.Module):
    """A model ``head(net(x))``; with a GP head, stochastic variational deep kernel learning.

    Parameters
    ----------
    net
        Any module from inputs to features of shape (B, Q).
    head
        A :class:`~svdkl.gp.head_protocol.Head`, or the arguments of a :class:`~svdkl.gp.head.GPHead`: ``num_features``,
        ``num_outputs``, ``likelihood`` and its options.

    Examples
    --------
    >>> x, y = torch.randn(100, 8), torch.randint(2, (100,))
    >>> net = MLP(in_features=8, hidden=(64,), out_features=10)
    >>> model = SVDKL(net, num_features=10, num_outputs=2)
    >>> (-model.elbo(x, y, num_data=len(x)).value).backward()
    >>> model.predict_proba(x).shape
    torch.Size([100, 2])
    """

    @overload
    def __init__(self, net: nn.Module, head: Head) -> None: ...

    @overload
    def __init__(
        self,
        net: nn.Module,
        num_features: int,
        num_outputs: int,
        likelihood: LikelihoodLike = "softmax",
        **head_options: Any,
    ) -> None: ...

    def __init__(self, net: nn.Module, *arguments: Any, **options: Any) -> None:
        super().__init__()
        self.net = net
        head, *others = (*arguments, *options.values()) or (None,)
        if isinstance(head, Head) and others:
            raise ValueError("Expected a head alone beside the network, got options too: give them to the head.")
        self.head: Head = head if isinstance(head, Head) else GPHead(*arguments, **options)

    @property
    def gp_head(self) -> GPHead:
        """The head, where it is one of Gaussian processes; else a ValueError."""
        if not isinstance(self.head, GPHead):
            raise ValueError(
                f"Expected a model with Gaussian processes, got one with a {type(self.head).__name__}: use GPHead."
            )
        return self.head

    @torch.no_grad()
    def set_ranges(self, x: Tensor) -> None:
        """Fit the lattice to the features of a sample of inputs: once, before training from scratch.

        Batch normalisation that has seen no batch yet takes this one's statistics, as it will in training.
        """
        new = [layer for layer in self.net.modules() if isinstance(layer, BatchNorm) and layer.num_batches_tracked == 0]
        for layer in new:
            layer.track_running_stats = False  # nothing is learned here
        try:
            self.gp_head.gps.bounding.set_ranges(self._features_in_use(x, in_training=new))
        finally:
            for layer in new:
                layer.track_running_stats = True

    @torch.no_grad()
    def remember(self, x: Tensor) -> None:
        """Let ``ood_score`` know which features come together, from a thousand rows in random order, after training."""
        self.gp_head.familiarity.remember(self._features_in_use(x[:MOST_ROWS]))

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
        """The evidence lower bound per datum; see :meth:`svdkl.gp.head_protocol.Head.elbo`."""
        return self.head.elbo(self.net(x), y, num_data, sample_weight, generator, part)

    def forward(
        self,
        x: Tensor,
        y: Tensor | None = None,
        num_data: int | float | None = None,
        sample_weight: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor | ELBO:
        """Return the ELBO where targets are given; otherwise logits of the class probabilities, or the targets' mean.

        Training calls the module itself, so that wrappers such as DistributedDataParallel see the whole loss.
        """
        if y is None:
            return self.head(self.net(x))
        if num_data is None:
            raise ValueError("Expected num_data, the number of training rows, beside the targets; got none.")
        return self.elbo(x, y, num_data, sample_weight, generator)

    def predict_proba(self, x: Tensor) -> Float[Tensor, "B C"]:
        """Return class probabilities; rows sum to 1 and do not depend on each other."""
        return self.head.predict_proba(self.net(x))

    def predict(self, x: Tensor) -> Prediction:
        """Return mean and variance of real targets or counts."""
        return self.head.predict(self.net(x))

    def log_predictive(self, x: Tensor, y: Tensor) -> Float[Tensor, "B"]:
        """Return log p(y_i | x_i) for each row."""
        return self.head.log_predictive(self.net(x), y)

    def uncertainty(self, x: Tensor) -> Uncertainty:
        """Tell where the uncertainty of each prediction comes from."""
        return self.head.uncertainty(self.net(x))

    def kernel_matrix(self, x: Tensor, other: Tensor, gp: int) -> Float[Tensor, "B B2"]:
        """The deep kernel of one GP between two sets of inputs."""
        return self.gp_head.gps.kernel_matrix(self.net(x), self.net(other), gp)

    def latent_covariance(self, x: Tensor, other: Tensor, gp: int) -> Float[Tensor, "B B2"]:
        """Posterior covariance of one GP between two sets of inputs."""
        return self.gp_head.gps.latent_covariance(self.net(x), self.net(other), gp)
