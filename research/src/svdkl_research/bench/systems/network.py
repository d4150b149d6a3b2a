"""The network alone, which is the floor for all that is built on it, and an activation, which is that of a head."""

import torch
from torch import nn

from svdkl.nets.mlp import MLP
from svdkl_research.bench.setting import CLASSES, INPUTS, Setting, random_rows
from svdkl_research.bench.systems.training_step import training_step
from svdkl_research.bench.timing import Step

HIDDEN = (1000, 1000, 500, 50)


def airline_network(num_features: int) -> MLP:
    """The paper's network for the airline task, 8-1000-1000-500-50, with this many outputs."""
    return MLP(INPUTS, HIDDEN, num_features)


def training(setting: Setting) -> Step:
    """Cross-entropy of two classes."""
    net = airline_network(CLASSES)
    x, y = random_rows(setting)
    return training_step(lambda: nn.functional.cross_entropy(net(x), y), net.parameters())


def activation(setting: Setting) -> Step:
    """``tanh`` of the features and its gradient, without any parameters."""
    h = torch.randn(setting.rows, setting.features, requires_grad=True)
    gradient = torch.randn(setting.rows, setting.features)

    def step() -> None:
        h.grad = None
        h.tanh().backward(gradient)

    return step
