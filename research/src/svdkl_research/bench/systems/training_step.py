"""Steps that compute a gradient, with or without an optimiser."""

from collections.abc import Callable, Iterable

import torch
from torch import nn

from svdkl.shapes import Tensor
from svdkl_research.bench.timing import Step


def training_step(loss: Callable[[], Tensor], parameters: Iterable[nn.Parameter]) -> Step:
    """Make a step of forward pass, backward pass and Adam, as every trained system takes it."""
    optimiser = torch.optim.Adam(parameters, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()

    return step


def gradient_step(loss: Callable[[], Tensor], features: Tensor, module: nn.Module) -> Step:
    """Make a forward and backward pass of a head, with gradients of the features and of the head's parameters."""

    def step() -> None:
        features.grad = None
        module.zero_grad()
        loss().backward()

    return step
