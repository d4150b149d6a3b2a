"""Steps of training: parameter groups with their rates, the schedule of the rates, and a guard against bad steps."""

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from svdkl.gp.additive import NonFiniteFeaturesError
from svdkl.model import SVDKL
from svdkl.shapes import Tensor
from svdkl.training.config import TrainingConfig
from svdkl.training.distributed import ALONE, WorkerGroup

Group = dict[str, Any]

MAX_ROLLBACKS = 5  # steps that may go wrong in a stage before we give up: rates are four hundred times lower then
BACKTRACK = 0.3  # A rollback multiplies the rates by this: two of them lower the rates tenfold.


def parameter_groups(model: SVDKL, config: TrainingConfig, train_net: bool = True) -> list[Group]:
    """Give each role of parameters its own rate; without the network where that is finished.

    Parameters that were trained before follow the run's schedule. Parameters that are new in a stage follow the stage's
    own, and so do mixing and likelihood where the network is finished, as its schedule is over.
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


def snapshot(module: nn.Module) -> dict[str, Any]:
    """Copy all parameters and buffers."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


class Guard:
    """A guard takes the optimiser's steps, except those that would carry a NaN or an infinity into the parameters.

    Where a loss or gradient is not finite, the last good state comes back and the rates are lowered. After a few such
    steps the guard gives up.
    """

    REFRESH = 50  # steps between two copies of the good state: rare enough that guarding costs next to nothing

    def __init__(self, module: nn.Module, optimiser: torch.optim.Optimizer, workers: WorkerGroup = ALONE) -> None:
        self.module, self.optimiser, self.workers = module, optimiser, workers
        self.slowdown = 1.0
        self._rollbacks = self._since = 0
        self._good = self._state()

    def step(self, loss: Callable[[], Tensor], clip: float, num_rows: int = 1) -> float:
        """Take one step and return its loss, or zero if the step was not taken.

        Parameters
        ----------
        loss
            A function that returns the mean loss over this worker's rows of the batch, of which there are
            ``num_rows``; it is not called if there are none.
        clip
            Largest norm of the gradient.
        """
        self.optimiser.zero_grad(set_to_none=True)
        value = self._backward(loss) if num_rows else 0.0
        parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        value = self.workers.mean_gradient(parameters, value, num_rows)
        finite = math.isfinite(value)
        if finite:
            reached = [p for p in parameters if p.grad is not None]
            finite = bool(torch.isfinite(nn.utils.clip_grad_norm_(reached, clip)))
        if not finite:
            self._roll_back()
            return 0.0
        self.optimiser.step()
        self._since += 1
        if self._since >= self.REFRESH:
            self.refresh()
        return value

    def _backward(self, loss: Callable[[], Tensor]) -> float:
        try:
            value = loss()
        except NonFiniteFeaturesError:
            return math.nan
        number = float(value.detach())
        if math.isfinite(number):
            value.backward()
        return number

    def refresh(self) -> None:
        """Keep the present state as the good one, if it is finite."""
        if all(bool(torch.isfinite(p).all()) for group in self.optimiser.param_groups for p in group["params"]):
            self._good, self._since = self._state(), 0

    def numbers(self) -> dict[str, float]:
        """The rates' factor and the count of bad steps, which a resumed run has to know."""
        return {"slowdown": self.slowdown, "rollbacks": self._rollbacks}

    def resume(self, numbers: dict[str, Any]) -> None:
        """Go on with the numbers of an interrupted run."""
        self.slowdown, self._rollbacks = numbers["slowdown"], numbers["rollbacks"]
        self.refresh()

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return snapshot(self.module), copy.deepcopy(self.optimiser.state_dict())

    def _roll_back(self) -> None:
        self._rollbacks += 1
        if self._rollbacks > MAX_ROLLBACKS:
            raise ArithmeticError(
                f"Expected finite losses and gradients; {self._rollbacks} steps had none, even with rates lowered to "
                f"{self.slowdown:.1g} of theirs: scale the inputs and targets, or lower the rates."
            )
        self.slowdown *= BACKTRACK
        self.module.load_state_dict(self._good[0])
        self.optimiser.load_state_dict(copy.deepcopy(self._good[1]))
        warnings.warn(
            f"A step had a loss or gradient that was not finite: the last good state is back, and the rates are "
            f"{self.slowdown:.1g} of what they were.",
            stacklevel=3,
        )
