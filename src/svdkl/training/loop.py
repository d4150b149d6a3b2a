"""One stage of training: epochs of minibatches, a held-out score after each, the best state kept.

Every recipe's every stage runs through :func:`run_stage`, so that comparisons between them are fair.
"""

import copy
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from svdkl.head import NonFiniteFeaturesError
from svdkl.shapes import Tensor
from svdkl.training.config import TrainingConfig
from svdkl.training.history import Epoch, History
from svdkl.training.optimisers import Group, make_optimiser, rate_factor, set_rates
from svdkl.training.rows import Rows, shuffled_batches

MAX_ROLLBACKS = 5  # steps that may go wrong in a stage before giving up
BACKTRACK = 0.3  # what a rollback leaves of the rates
EVALUATION_ROWS = 16_384


@dataclass(frozen=True)
class Stage:
    """What is trained, on which loss, and how it is scored on held-out rows."""

    name: str
    module: nn.Module
    groups: list[Group]
    loss: Callable[[Rows, float], Tensor]  # of a batch; the second argument is the share of the stage that is over
    log_predictive: Callable[[Rows], Tensor]
    epochs: int


def run_stage(
    stage: Stage,
    train: Rows,
    held_out: Rows,
    config: TrainingConfig,
    generator: torch.Generator,
    history: History,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> None:
    """Train a stage and leave its module in the state with the best held-out score, the starting one included."""
    optimiser = make_optimiser(stage.groups)
    base_rates = [group["lr"] for group in optimiser.param_groups]
    steps_per_epoch = math.ceil(len(train.x) / config.batch_size)
    num_steps = stage.epochs * steps_per_epoch
    guard = Guard(stage.module, optimiser)

    best = held_out_nlp(stage, held_out)
    best_state, best_epoch = _snapshot(stage.module), -1
    step = 0
    for number in range(stage.epochs):
        start, total = time.perf_counter(), 0.0
        stage.module.train()
        for batch in shuffled_batches(train, config.batch_size, generator):
            factor = rate_factor(step, num_steps, config.warmup_steps) * guard.slowdown
            set_rates(optimiser, base_rates, factor)
            total += guard.step(partial(stage.loss, batch, step / num_steps), config.clip) * len(batch.x)
            step += 1
        score = held_out_nlp(stage, held_out)
        if score < best:
            best, best_epoch, best_state = score, number, _snapshot(stage.module)
        epoch = Epoch(stage.name, number, total / len(train.x), score, time.perf_counter() - start)
        history.add(epoch)
        on_epoch(epoch)
        if number - best_epoch >= config.patience:
            break
    stage.module.load_state_dict(best_state)
    stage.module.eval()


@torch.no_grad()
def held_out_nlp(stage: Stage, held_out: Rows) -> float:
    """Mean negative log predictive probability of the held-out rows."""
    stage.module.eval()
    total = weights = 0.0
    for index in torch.arange(len(held_out.x)).split(EVALUATION_ROWS):
        rows = held_out.take(index)
        weight = torch.ones(len(rows.x)) if rows.weight is None else rows.weight
        try:
            total -= float((weight * stage.log_predictive(rows)).sum())
        except NonFiniteFeaturesError:
            return math.inf
        weights += float(weight.sum())
    score = total / max(weights, 1e-300)
    return score if math.isfinite(score) else math.inf


def _snapshot(module: nn.Module) -> dict[str, Any]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


class Guard:
    """Takes steps, and takes none that would carry a NaN or an infinity into the parameters.

    Where a loss or gradient is not finite, the last good state comes back and the rates are lowered; after a few such
    steps it gives up. The good state is refreshed every so many steps, so that guarding costs next to nothing.
    """

    REFRESH = 50

    def __init__(self, module: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        self.module, self.optimiser = module, optimiser
        self.slowdown = 1.0
        self._rollbacks = self._since = 0
        self._good = self._state()

    def step(self, loss: Callable[[], Tensor], clip: float) -> float:
        """One step; the loss, or zero if there was none to take."""
        self.optimiser.zero_grad(set_to_none=True)
        try:
            value = loss()
            finite = bool(torch.isfinite(value))
        except NonFiniteFeaturesError:
            finite = False
        if finite:
            value.backward()
            parameters = [p for group in self.optimiser.param_groups for p in group["params"] if p.grad is not None]
            finite = bool(torch.isfinite(nn.utils.clip_grad_norm_(parameters, clip)))
        if not finite:
            self._roll_back()
            return 0.0
        self.optimiser.step()
        self._since += 1
        if self._since >= self.REFRESH and all(bool(torch.isfinite(p).all()) for p in parameters):
            self._good, self._since = self._state(), 0
        return float(value.detach())

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return _snapshot(self.module), copy.deepcopy(self.optimiser.state_dict())

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
