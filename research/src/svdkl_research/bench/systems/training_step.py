"""Steps of gradient descent."""

from collections.abc import Callable, Iterable

import torch
from torch import nn

from svdkl.shapes import Tensor
from svdkl_research.bench.timing import Step


def training_step(loss: Callable[[], Tensor], parameters: Iterable[nn.Parameter]) -> Step:
    """Forward, backward, Adam: the same for all that are trained."""
    optimiser = torch.optim.Adam(parameters, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()

    return step


def gradient_step(loss: Callable[[], Tensor], features: Tensor, module: nn.Module) -> Step:
    """Forward and backward of a head on given features: gradients of these and of the head's parameters."""

    def step() -> None:
        features.grad = None
        module.zero_grad()
        loss().backward()

    return step
