"""Turn options into a training, a network, a head and a device, for a table of some size."""

import copy
import math
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from svdkl.estimators.options import Options
from svdkl.gp.head import GPHead
from svdkl.gp.head_protocol import Head
from svdkl.nets.tabular import TabularNet
from svdkl.shapes import Tensor
from svdkl.tables.bins import Task
from svdkl.tables.layout import Layout
from svdkl.training.config import TrainingConfig
from svdkl.training.linear_head import LinearHead

# The network trains alone for this share of the epochs, so that GPs join features that already mean something.
NETWORK_SHARE = 2 / 3
# An epoch costs what its rows cost, so max_iter="auto" goes through about this many rows in all, ...
ROW_EPOCHS = 8_000_000
# ... in at least 4 epochs, since a schedule of rates needs a few, and usually at most 40, ...
FEWEST_EPOCHS, USUAL_EPOCHS = 4, 40
# ... except in tables so small that an epoch is a handful of steps and more epochs still pay.
FEW_ROWS = 700_000
MOST_EPOCHS = 100
# Larger steps save no time a row, and make fewer steps of an epoch.
LARGEST_BATCH = 2048

# From this many rows on, what keeps a small table from being overfitted only slows the network down.
MANY_ROWS = 100_000
# Chosen on validation rows of Adult, Connect-4 and Diabetes.
SMALL_TABLE = {"hidden": [384, 384], "encoding": "piecewise", "dropout": 0.25, "alpha": 0.2}
# Chosen on validation rows of samples of Covertype and the flights.
LARGE_TABLE = {"hidden": [512, 512, 512], "encoding": "both", "dropout": 0.1, "alpha": 0.1}
# Steps of an epoch, and rows that a step has at least: the few epochs of a large table need more steps each.
SMALL_TABLE_BATCHES, LARGE_TABLE_BATCHES = (90, 32), (800, 512)
# Real targets are hit more closely than dropout's noise allows: it cost the network's RMSE on validation rows of all of
# concrete, energy, elevators, pol, kin40k and bike.
REAL_TARGETS = {"dropout": 0.0}
# The posterior of a large table has enough to learn from to go faster than the network.
SMALL_TABLE_RATE, LARGE_TABLE_RATE = 1e-3, 3e-3
KERNEL_RATE = 1e-3  # the network's own rate
# With one GP an output, a draw of its function serves all rows of a step, so its noise does not average out over them,
# and all that the network says goes through it: a posterior at the usual rate spoils both. Chosen on validation rows of
# Adult, Connect-4, Diabetes, Covertype and the flights.
OUTPUTS_RATE, OUTPUTS_KERNEL_RATE = 3e-5, 1e-4


def training_config(
    options: Options, task: Task, num_rows: int, held_out: bool, seed: int, epoch_rows: int | None = None
) -> TrainingConfig:
    """Return the training that the options describe.

    Parameters
    ----------
    num_rows
        Rows to fit.
    held_out
        Whether other rows are held out.
    epoch_rows
        Rows of an epoch, if an epoch does not go through all of them.
    """
    if isinstance(options.max_iter, str):
        usual = max(min(ROW_EPOCHS // num_rows, USUAL_EPOCHS), FEWEST_EPOCHS)
        whole_epochs = max(usual, min(FEW_ROWS // num_rows, MOST_EPOCHS))
        epochs = math.ceil(whole_epochs * num_rows / (epoch_rows or num_rows))
    else:
        epochs = options.max_iter
    before_gps = math.ceil(NETWORK_SHARE * epochs)
    variational_rate, kernel_rate = _head_rates(options, num_rows)
    return TrainingConfig(
        recipe=options.recipe,
        pretrain_epochs=before_gps,
        joint_epochs=epochs - before_gps,
        batch_size=_batch_size(options, num_rows),
        joint_batch_size=None if isinstance(options.joint_batch_size, str) else options.joint_batch_size,
        net_rate=float(options.learning_rate_init),
        variational_rate=variational_rate,
        kernel_rate=kernel_rate,
        weight_decay=float(_chosen(options, "alpha", task, num_rows)),
        patience=options.n_iter_no_change if options.early_stopping and held_out else epochs,
        evidence=options.evidence and held_out,
        seed=seed,
    )


def network_options(options: Options, task: Task, num_rows: int) -> dict[str, Any]:
    """Return the options of :class:`~svdkl.nets.tabular.TabularNet` for a table of so many rows."""
    chosen = {name: _chosen(options, name, task, num_rows) for name in ("hidden", "encoding", "dropout")}
    return {
        "hidden": list(chosen["hidden"]),
        "encoding": chosen["encoding"],
        "dropout": float(chosen["dropout"]),
        "normalise": options.normalise,
        "residual": options.residual,
    }


def head_options(options: Options) -> dict[str, Any]:
    """Return the options of :class:`~svdkl.gp.head.GPHead`; the paper's form has the paper's way of sampling, too."""
    return {
        "gps": options.gps,
        "estimator": "joint" if options.gps == "outputs" else "marginal",
        "grid_size": options.grid_size,
        "dims_per_gp": options.dims_per_gp,
        "kernel": copy.deepcopy(options.kernel),
        "posterior": options.posterior,
    }


def _batch_size(options: Options, num_rows: int) -> int:
    if not isinstance(options.batch_size, str):
        return options.batch_size
    batches, smallest = LARGE_TABLE_BATCHES if num_rows >= MANY_ROWS else SMALL_TABLE_BATCHES
    power: int = 2 ** round(math.log2(max(1, num_rows / batches)))
    return min(max(power, smallest), LARGEST_BATCH)


def _head_rates(options: Options, num_rows: int) -> tuple[float, float]:
    """Return the step sizes of the posterior and of the kernels."""
    if options.gps == "outputs":
        return OUTPUTS_RATE, OUTPUTS_KERNEL_RATE
    return LARGE_TABLE_RATE if num_rows >= MANY_ROWS else SMALL_TABLE_RATE, KERNEL_RATE


def _chosen(options: Options, name: str, task: Task, num_rows: int) -> Any:
    """Return an option, or what "auto" stands for."""
    value = getattr(options, name)
    if not (isinstance(value, str) and value == "auto"):
        return value
    by_size = LARGE_TABLE if num_rows >= MANY_ROWS else SMALL_TABLE
    return {**by_size, **(REAL_TARGETS if task == "regression" else {})}[name]


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
    if any(map(is_lazy, net.parameters())):
        raise ValueError("Expected net to have all its parameters, got lazy ones: call it on some rows once.")
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
