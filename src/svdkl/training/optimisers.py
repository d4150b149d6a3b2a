"""Parameter groups with their own rates, and the schedule that all of them share."""

import math

import torch

from svdkl.model import SVDKL
from svdkl.training.config import TrainingConfig
from svdkl.training.pretrain import PlainNet

Group = dict[str, object]


def plain_groups(model: PlainNet, config: TrainingConfig) -> list[Group]:
    """One rate for all; weight decay on weights, not on the likelihood's own parameters."""
    weights = [*model.net.parameters(), *model.layer.parameters()]
    return [
        {"params": weights, "lr": config.net_rate, "weight_decay": config.weight_decay},
        {"params": list(model.likelihood.parameters()), "lr": config.net_rate, "weight_decay": 0.0},
    ]


def joint_groups(model: SVDKL, config: TrainingConfig, train_net: bool) -> list[Group]:
    """Network, variational parameters, kernels, and mixing with the likelihood: each with its own rate."""
    head = model.head
    gps = [bank.gps for bank in head.members()]
    groups: list[Group] = [
        {"params": [p for g in gps for p in g.posterior.parameters()], "lr": config.variational_rate},
        {"params": [p for g in gps for p in g.kernel.parameters()], "lr": config.kernel_rate},
        {
            "params": [*head.mixing.parameters(), *head.likelihood.parameters(), *head.bounding.parameters()],
            "lr": config.mixing_rate,
        },
    ]
    if train_net:
        rate = config.net_rate / config.joint_slowdown
        groups.append({"params": list(model.net.parameters()), "lr": rate, "weight_decay": config.weight_decay})
    return [{"weight_decay": 0.0, **group} for group in groups if group["params"]]


def make_optimiser(groups: list[Group]) -> torch.optim.AdamW:
    """AdamW over the groups."""
    return torch.optim.AdamW(groups)


def rate_factor(step: int, num_steps: int, warmup_steps: int) -> float:
    """Linear warm-up, then half a cosine down to a hundredth."""
    warmup = min(warmup_steps, num_steps // 4)
    if step < warmup:
        return (step + 1) / (warmup + 1)
    progress = (step - warmup) / max(1, num_steps - warmup)
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def set_rates(optimiser: torch.optim.Optimizer, base: list[float], factor: float) -> None:
    """Scale every group's own rate."""
    for group, rate in zip(optimiser.param_groups, base, strict=True):
        group["lr"] = rate * factor
