"""The network and the head that options describe, and the device that they are put on."""

import copy
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from svdkl.estimators.defaults import head_options
from svdkl.estimators.options import Options
from svdkl.gp.head import GPHead
from svdkl.gp.head_protocol import Head
from svdkl.nets.tabular import TabularNet
from svdkl.shapes import Tensor
from svdkl.tables.layout import Layout
from svdkl.training.linear_head import LinearHead


def build_net(
    options: Options, layout: Layout | None, network: dict[str, Any], num_features: int, num_outputs: int
) -> tuple[nn.Module, int]:
    """Return a network and how many features it gives the head.

    Parameters
    ----------
    layout
        The columns of an encoded table; None for a network of the user's own, of which this is a copy.
    network
        The options of :class:`~svdkl.nets.tabular.TabularNet`.
    """
    if layout is None:
        net: nn.Module = copy.deepcopy(options.net)
    else:
        net = nn.Sequential(TabularNet(layout, out_features=num_features, **network), nn.ReLU())
    if options.gps == "outputs" and options.has_gps:  # the paper's form: one feature and one GP an output
        return nn.Sequential(net, nn.Linear(num_features, num_outputs)), num_outputs
    if options.recipe == "dnn_plus":  # the paper's "+": one more layer of C units before the last
        # Of two rectified units both can die, and the network with them; leaky ones cannot.
        return nn.Sequential(net, nn.Linear(num_features, num_outputs), nn.LeakyReLU()), num_outputs
    return net, num_features


def build_head(options: Options, num_features: int, num_outputs: int, likelihood: str) -> Head:
    """Return the head that the recipe ends with, untrained."""
    if not options.has_gps:
        return LinearHead(num_features, num_outputs, likelihood)
    with torch.random.fork_rng(devices=[]):  # so that all recipes start with the same network
        return GPHead(num_features, num_outputs, likelihood, **head_options(options))


def check_net(net: object) -> None:
    """Refuse a network of the user's own that is no torch module, or one without all of its parameters."""
    if net is not None and not isinstance(net, nn.Module):
        raise ValueError(f"Expected net to be a torch module or None, got {type(net).__name__}.")
    if net is not None and any(map(is_lazy, net.parameters())):
        raise ValueError("Expected net to have all its parameters, got lazy ones: call it on some rows once.")


def choose_device(device: object) -> torch.device:
    """Return the device itself, or the fastest there is for "auto"."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)  # type: ignore[call-overload]
        torch.zeros(1, device=chosen).item()  # a device that is not there has a name all the same
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(
            f"Expected device to be 'auto' or a torch device of this machine, such as 'cpu', got {device!r}."
        ) from error
    return chosen


@torch.no_grad()
def features_of(net: nn.Module, example: Tensor) -> int:
    """Count the features that a network of the user's own gives, by an example of one row."""
    net = copy.deepcopy(net).to(example.device)
    rows = torch.cat([example, example])
    try:
        features = net.eval()(rows)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        said = " ".join(str(error).split())
        raise ValueError(
            f"Expected net to take rows of shape {tuple(rows.shape[1:])} and type {rows.dtype}, got one that cannot "
            f"({said}): fit it to the rows of X."
        ) from error
    if not isinstance(features, Tensor) or features.dim() != 2 or len(features) != len(rows) or not features.shape[1]:
        got = tuple(features.shape) if isinstance(features, Tensor) else type(features).__name__
        raise ValueError(
            f"Expected net to turn rows into features of shape (rows, features), got {got} for {len(rows)} rows: "
            f"flatten them at its end."
        )
    if not features.is_floating_point():
        raise ValueError(f"Expected net to give features that are floating point, got {features.dtype}: convert them.")
    return int(features.shape[1])
