"""The network alone, which no system on top of it can undercut, and tanh, which no head can undercut."""

import torch
from torch import nn

from svdkl.nets.mlp import MLP
from svdkl_research.bench.setting import CLASSES, INPUTS, Setting, random_rows
from svdkl_research.bench.systems.training_step import training_step
from svdkl_research.bench.timing import Step

HIDDEN = (1000, 1000, 500, 50)


def airline_network(num_features: int) -> MLP:
    """Build the paper's network for the airline task, 8-1000-1000-500-50, with ``num_features`` outputs."""
    return MLP(INPUTS, HIDDEN, num_features)


def training(setting: Setting) -> Step:
    """Make a training step of the network on the cross-entropy of two classes."""
    net = airline_network(CLASSES)
    x, y = random_rows(setting)
    return training_step(lambda: nn.functional.cross_entropy(net(x), y), net.parameters())


def activation(setting: Setting) -> Step:
    """Make a step of ``tanh`` on the features and its gradient, which has no parameters."""
    h = torch.randn(setting.rows, setting.features, requires_grad=True)
    gradient = torch.randn(setting.rows, setting.features)

    def step() -> None:
        h.grad = None
        h.tanh().backward(gradient)

    return step
