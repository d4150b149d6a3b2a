"""Parameter groups with their own rates, and the schedule that all of them share."""

import math
from typing import Any

import torch

from svdkl.model import SVDKL
from svdkl.training.config import TrainingConfig

Group = dict[str, Any]


def parameter_groups(model: SVDKL, config: TrainingConfig, train_net: bool = True) -> list[Group]:
    """Give each role of parameters its own rate; without the network where that is finished.

    What goes on from the network follows the run's schedule. What a stage trains for the first time follows the
    stage's own, and so does the head's mixing where the network's schedule is over.
    """
    roles = model.head.roles()
    net = list(model.net.parameters()) if train_net else []
    groups: list[Group] = [
        {"params": [*net, *roles.weights], "rate": config.net_rate, "weight_decay": config.weight_decay},
        {"params": roles.outputs, "rate": config.net_rate, "new": not train_net},
        {"params": roles.posterior, "rate": config.variational_rate, "new": True},
        {"params": roles.kernels, "rate": config.kernel_rate, "new": True, "every": config.kernel_every},
    ]
    return [group for group in groups if group["params"]]


def make_optimiser(groups: list[Group], as_large: float = 1.0) -> torch.optim.AdamW:
    """AdamW over the groups; weight decay only where a group asks for it.

    Parameters
    ----------
    as_large
        How many usual steps a step stands for, by its rows. Rates grow with the root of it, since a mean over more rows
        has less noise.
    """
    settings = []
    for group in groups:
        rate = group["rate"] * math.sqrt(as_large)
        settings.append({"weight_decay": 0.0, "new": False, "every": 1, **group, "rate": rate, "lr": rate})
    return torch.optim.AdamW(settings, fused=True)  # one pass over the parameters instead of ten


def choose_groups(optimiser: torch.optim.Optimizer, step: int) -> None:
    """Let only the groups whose turn it is have gradients; the others cost nothing in this step and do not change."""
    for group in optimiser.param_groups:
        if group["every"] > 1:
            for parameter in group["params"]:
                parameter.requires_grad_(step % group["every"] == 0)


def rate_factor(step: int | float, num_steps: int, warmup_steps: int) -> float:
    """Linear warm-up, then half a cosine down to a hundredth."""
    warmup = min(warmup_steps, num_steps // 4)
    if step < warmup:
        return (step + 1) / (warmup + 1)
    progress = (step - warmup) / max(1, num_steps - warmup)
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def set_rates(optimiser: torch.optim.Optimizer, in_run: float, in_stage: float) -> None:
    """Scale every group's rate: groups that are new in a stage follow the stage's schedule, others the run's."""
    for group in optimiser.param_groups:
        group["lr"] = group["rate"] * (in_stage if group["new"] else in_run)
