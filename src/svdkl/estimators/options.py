"""Constructor arguments as plain JSON, and back.

The parameters that a fitted model is built by: changed under it, they would describe another model.

From an estimator's parameters to a network, a head and a training run: the one place where they are read.
"""

import copy
import json
import math
import re
from collections.abc import Sequence
from numbers import Integral, Real
from textwrap import shorten
from typing import Any, get_args

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy

from svdkl.gp.head import LAYOUTS, GPHead
from svdkl.gp.head_protocol import Head
from svdkl.model import SVDKL
from svdkl.nets.tabular import Encoding, TabularNet
from svdkl.shapes import Tensor
from svdkl.tables.layout import Layout
from svdkl.training.config import RECIPES, WITH_HEAD, TrainingConfig
from svdkl.training.linear_head import LinearHead

STRUCTURE = (
    "recipe",
    "likelihood",
    "hidden",
    "num_features",
    "dropout",
    "encoding",
    "normalise",
    "residual",
    "net",
    "gps",
    "grid_size",
    "dims_per_gp",
    "kernel",
    "posterior",
)
LONGEST = 100  # characters of a parameter in a message: networks are long

NETWORK_SHARE = 2 / 3  # of the epochs, before a head joins the network
ROW_EPOCHS = 8_000_000  # rows to go through with max_iter="auto", in this many epochs:
FEWEST_EPOCHS, USUAL_EPOCHS, MOST_EPOCHS = 4, 40, 100
FEW_ROWS = 700_000  # to go through in tables so small that more than the usual number of epochs pays
LARGEST_BATCH = 2048  # rows, with batch_size="auto"

MANY_ROWS = 100_000
# What "auto" stands for. Chosen on validation rows: the first on Adult, Connect-4 and Diabetes, the second on samples
# of Covertype and the flights, where what keeps a small table from being overfitted only slows the network down, and
# where the posterior has enough to learn from to go faster than the network. Their few epochs need more steps each.
SMALL_TABLE = {"hidden": (384, 384), "encoding": "piecewise", "dropout": 0.25, "alpha": 0.2}
LARGE_TABLE = {"hidden": (512, 512, 512), "encoding": "both", "dropout": 0.1, "alpha": 0.1}
SMALL_TABLE_BATCHES, LARGE_TABLE_BATCHES = (90, 32), (800, 512)  # in an epoch, and rows of each at least
# Real targets are hit more closely than dropout's noise allows: chosen on validation rows of concrete, energy,
# elevators, pol, kin40k and bike, on all of which it cost the network's RMSE.
REAL_TARGETS = {"dropout": 0.0}
SMALL_TABLE_RATE, LARGE_TABLE_RATE = 1e-3, 3e-3  # of the posterior
KERNEL_RATE = 1e-3
# With one GP an output a draw of its function is that of all rows of a step, so that its noise does not average out
# over them, and all that the network tells goes through it: a posterior that goes as fast as others do spoils both.
# Chosen on validation rows of Adult, Connect-4, Diabetes, Covertype and the flights.
OUTPUTS_RATE, OUTPUTS_KERNEL_RATE = 3e-5, 1e-4

Model = SVDKL


def parameters_to_json(parameters: dict[str, Any]) -> dict[str, Any]:
    """Constructor arguments; those that only a program can make are left out or refused."""
    kept = dict(parameters)
    kept["net"] = None if kept["net"] is None else "custom"
    if isinstance(kept["random_state"], np.random.RandomState):
        kept["random_state"] = None  # its state has moved on since
    if isinstance(kept.get("class_weight"), dict):
        kept["class_weight"] = {"pairs": [[plain(k), plain(v)] for k, v in kept["class_weight"].items()]}
    kept["device"] = str(kept["device"])
    return {name: _checked(name, value) for name, value in kept.items()}


def parameters_from_json(data: dict[str, Any], net: Any) -> dict[str, Any]:
    """The constructor arguments again."""
    parameters = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
    if isinstance(parameters.get("class_weight"), dict):
        parameters["class_weight"] = dict(data["class_weight"]["pairs"])
    parameters["net"] = net
    return parameters


def plain(value: Any) -> Any:
    """A value without numpy's types, tuples and arrays as lists; other objects as they are."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return [plain(part) for part in value] if isinstance(value, tuple | list) else value


def _checked(name: str, value: Any) -> Any:
    value = plain(value)
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Expected {name} to be a name or a number to save it, got {type(value).__name__}: objects are not stored."
        ) from error
    return value


def structure_of(estimator: Any) -> dict[str, str]:
    """Each of them in words: of networks, too, these are the same for copies, in whatever process."""
    parameters = estimator.get_params(deep=False)
    return {name: _in_words(parameters[name]) for name in STRUCTURE if name in parameters}


def check_structure(estimator: Any) -> None:
    """A ValueError if one of them is not what it was when the model was fitted."""
    for name, now in structure_of(estimator).items():
        fitted = estimator.structure_[name]
        if now != fitted:
            before, after = (shorten(words, LONGEST, placeholder="...") for words in (fitted, now))
            raise ValueError(
                f"Expected {name}={before}, as the model was fitted with, got {after}: set it back, or fit a new model."
            )


def _in_words(value: Any) -> str:
    return re.sub(" at 0x[0-9a-f]+", "", repr(plain(value)))


def has_head(estimator: Any) -> bool:
    """Whether the recipe ends in Gaussian processes."""
    return estimator.recipe in WITH_HEAD


def holds_out(estimator: Any) -> bool:
    """Whether rows are held out of the fit."""
    return bool(estimator.early_stopping or (estimator.evidence and has_head(estimator)))


def training_config(
    estimator: Any, num_rows: int, held_out: bool, seed: int, epoch_rows: int | None = None
) -> TrainingConfig:
    """The run that the parameters describe, on so many rows, with or without others to hold out.

    An epoch goes through all rows, if it is not said how many it goes through.
    """
    epochs = estimator.max_iter
    if epochs == "auto":
        usual = max(min(ROW_EPOCHS // num_rows, USUAL_EPOCHS), FEWEST_EPOCHS)
        epochs = max(usual, min(FEW_ROWS // num_rows, MOST_EPOCHS))
        epochs = math.ceil(epochs * num_rows / (epoch_rows or num_rows))
    batch_size = estimator.batch_size
    if batch_size == "auto":
        batches, smallest = LARGE_TABLE_BATCHES if num_rows >= MANY_ROWS else SMALL_TABLE_BATCHES
        batch_size = 2 ** round(math.log2(max(1, num_rows / batches)))
        batch_size = min(max(batch_size, smallest), LARGEST_BATCH)
    before_head = math.ceil(NETWORK_SHARE * epochs)
    variational_rate, kernel_rate = head_rates(estimator, num_rows)
    return TrainingConfig(
        recipe=estimator.recipe,
        pretrain_epochs=before_head,
        joint_epochs=int(epochs) - before_head,
        batch_size=int(batch_size),
        joint_batch_size=joint_batch_size(estimator),
        net_rate=float(estimator.learning_rate_init),
        variational_rate=variational_rate,
        kernel_rate=kernel_rate,
        weight_decay=float(_chosen(estimator, "alpha", num_rows)),
        patience=int(estimator.n_iter_no_change) if estimator.early_stopping and held_out else int(epochs),
        evidence=bool(estimator.evidence) and held_out,
        seed=seed,
    )


def head_rates(estimator: Any, num_rows: int) -> tuple[float, float]:
    """Of posterior and kernels."""
    if estimator.gps == "outputs":
        return OUTPUTS_RATE, OUTPUTS_KERNEL_RATE
    return LARGE_TABLE_RATE if num_rows >= MANY_ROWS else SMALL_TABLE_RATE, KERNEL_RATE


def joint_batch_size(estimator: Any) -> int | None:
    """Rows of a step in which processes take part; None for as many as of any other."""
    value = estimator.joint_batch_size
    return None if isinstance(value, str) and value == "auto" else int(value)


def _chosen(estimator: Any, name: str, num_rows: int) -> Any:
    """A parameter, or what "auto" stands for in a table of so many rows and for its kind of target."""
    value = getattr(estimator, name)
    if not (isinstance(value, str) and value == "auto"):
        return value
    by_size = LARGE_TABLE if num_rows >= MANY_ROWS else SMALL_TABLE
    by_task = REAL_TARGETS if estimator._task == "regression" else {}
    return {**by_size, **by_task}[name]


def network_options(estimator: Any, num_rows: int) -> dict[str, Any]:
    """What the network is told beside its size, for a table of so many rows."""
    chosen = {name: _chosen(estimator, name, num_rows) for name in ("hidden", "encoding", "dropout")}
    return {
        "hidden": [int(size) for size in chosen["hidden"]],
        "encoding": chosen["encoding"],
        "dropout": float(chosen["dropout"]),
        "normalise": bool(estimator.normalise),
        "residual": bool(estimator.residual),
    }


def head_options(estimator: Any) -> dict[str, Any]:
    """What the head is told beside its size. The paper's form has the paper's way of sampling, too."""
    return {
        "gps": estimator.gps,
        "estimator": "joint" if estimator.gps == "outputs" else "marginal",
        "grid_size": estimator.grid_size,
        "dims_per_gp": estimator.dims_per_gp,
        "kernel": copy.deepcopy(estimator.kernel),
        "posterior": estimator.posterior,
    }


def build_net(estimator: Any, layout: Layout | None, num_features: int, num_outputs: int) -> tuple[nn.Module, int]:
    """The network, by the layout of a table or the user's own, and how many features it gives the head."""
    if layout is None:
        net: nn.Module = copy.deepcopy(estimator.net)
    else:
        net = TabularNet(layout, out_features=num_features, **estimator.network_options_)
        net = nn.Sequential(net, nn.ReLU())
    if estimator.gps == "outputs" and has_head(estimator):  # the paper's form: one feature and one GP an output
        return nn.Sequential(net, nn.Linear(num_features, num_outputs)), num_outputs
    if estimator.recipe == "dnn_plus":  # the paper's "+": one more layer of C units before the last
        # Of two rectified units both can die, and the network with them; leaky ones cannot.
        return nn.Sequential(net, nn.Linear(num_features, num_outputs), nn.LeakyReLU()), num_outputs
    return net, num_features


def build_head(estimator: Any, num_features: int, num_outputs: int, likelihood: str) -> Head:
    """The head that the recipe ends with; a ValueError for what only the head can tell of the parameters."""
    if not has_head(estimator):
        return LinearHead(num_features, num_outputs, likelihood)
    with torch.random.fork_rng(devices=[]):  # all recipes start with the same network
        return GPHead(num_features, num_outputs, likelihood, **head_options(estimator))


def choose_device(device: Any) -> torch.device:
    """The device itself, or the fastest there is."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.zeros(1, device=chosen).item()  # a device that is not there has a name all the same
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(
            f"Expected device to be 'auto' or a torch device of this machine, such as 'cpu', got {device!r}."
        ) from error
    return chosen


def check_parameters(estimator: Any) -> None:
    """A ValueError in one sentence for the first parameter that cannot be."""
    choices = {"recipe": RECIPES, "gps": LAYOUTS, "encoding": ("auto", *get_args(Encoding))}
    for name, allowed in choices.items():
        if getattr(estimator, name) not in allowed:
            raise ValueError(f"Expected {name} to be one of {', '.join(allowed)}, got {getattr(estimator, name)!r}.")
    hidden = plain(estimator.hidden)
    if hidden != "auto" and (not isinstance(hidden, Sequence) or not all(is_whole(size, 1) for size in hidden)):
        raise ValueError(f"Expected hidden to be 'auto' or the sizes of layers, such as (512, 512), got {hidden!r}.")
    for name in ("num_features", "n_iter_no_change", "dims_per_gp"):
        if not is_whole(getattr(estimator, name), 1):
            raise ValueError(f"Expected {name} to be a whole number of at least 1, got {getattr(estimator, name)!r}.")
    for name in ("max_iter", "batch_size", "joint_batch_size"):
        value = getattr(estimator, name)
        if not (isinstance(value, str) and value == "auto") and not is_whole(value, 1):
            raise ValueError(f"Expected {name} to be 'auto' or a whole number of at least 1, got {value!r}.")
    for name, least, below in (
        ("learning_rate_init", 0.0, math.inf),
        ("alpha", 0.0, math.inf),
        ("dropout", 0.0, 1.0),
        ("validation_fraction", 0.0, 1.0),
    ):
        value = getattr(estimator, name)
        if name in SMALL_TABLE and isinstance(value, str) and value == "auto":
            continue
        if not isinstance(value, Real) or not least <= float(value) < below:
            raise ValueError(f"Expected {name} to be a number from {least:g} to below {below:g}, got {value!r}.")
    if estimator.net is not None and not isinstance(estimator.net, nn.Module):
        raise ValueError(f"Expected net to be a torch module or None, got {type(estimator.net).__name__}.")
    if estimator.net is not None and any(map(is_lazy, estimator.net.parameters())):
        raise ValueError("Expected net to have all its parameters, got lazy ones: call it on some rows once.")


def is_whole(value: Any, least: int) -> bool:
    """Whether a value is a whole number, and so large."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


@torch.no_grad()
def features_of(net: nn.Module, example: Tensor) -> int:
    """How many features a network of the user's own gives, for an example of one row."""
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
