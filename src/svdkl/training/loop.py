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
from svdkl.training.checkpoint import Checkpoint, Snapshot, optimiser_tensors, restore_optimiser
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
    checkpoint: Checkpoint | None = None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> None:
    """Train a stage and leave its module in the state with the best held-out score, the starting one included.

    With a checkpoint, the state after every epoch is on disk, and a stage that is found there goes on from it: the
    result is bit for bit that of a run that was never interrupted.
    """
    optimiser = make_optimiser(stage.groups)
    base_rates = [group["lr"] for group in optimiser.param_groups]
    steps_per_epoch = math.ceil(len(train.x) / config.batch_size)
    num_steps = stage.epochs * steps_per_epoch
    guard = Guard(stage.module, optimiser)
    progress = Progress(best=held_out_nlp(stage, held_out), best_state=_snapshot(stage.module))
    if checkpoint is not None:
        progress.restore(checkpoint, stage, guard, generator)

    while progress.epoch < stage.epochs and progress.epoch - progress.best_epoch < config.patience:
        start, total = time.perf_counter(), 0.0
        step = progress.epoch * steps_per_epoch
        stage.module.train()
        for batch in shuffled_batches(train, config.batch_size, generator):
            factor = rate_factor(step, num_steps, config.warmup_steps) * guard.slowdown
            set_rates(optimiser, base_rates, factor)
            total += guard.step(partial(stage.loss, batch, step / num_steps), config.clip) * len(batch.x)
            step += 1
        score = held_out_nlp(stage, held_out)
        progress.epoch += 1
        if score < progress.best:
            progress.best, progress.best_epoch, progress.best_state = score, progress.epoch, _snapshot(stage.module)
        guard.refresh()
        epoch = Epoch(stage.name, progress.epoch, total / len(train.x), score, time.perf_counter() - start)
        history.add(epoch)
        on_epoch(epoch)
        if checkpoint is not None:
            progress.save(checkpoint, stage, guard, generator)
    stage.module.load_state_dict(progress.best_state)
    stage.module.eval()


@dataclass
class Progress:
    """Where a stage stands after an epoch."""

    best: float
    best_state: dict[str, Tensor]
    epoch: int = 0  # epochs done
    best_epoch: int = 0  # how many had been done at the best score

    def save(self, checkpoint: Checkpoint, stage: Stage, guard: "Guard", generator: torch.Generator) -> None:
        """Put everything that the next epoch depends on on disk."""
        tensors = {
            "module": _snapshot(stage.module),
            "best": self.best_state,
            "optimiser": optimiser_tensors(guard.optimiser),
            # Dropout draws from torch's own generator, the order of rows and the noise from ours.
            "random": {"torch": torch.get_rng_state(), "ours": generator.get_state()},
        }
        numbers = {"epoch": self.epoch, "best": self.best, "best_epoch": self.best_epoch}
        checkpoint.save(Snapshot(stage.name, tensors, {**numbers, **guard.numbers()}))

    def restore(self, checkpoint: Checkpoint, stage: Stage, guard: "Guard", generator: torch.Generator) -> None:
        """Take up a snapshot of this stage, if there is one."""
        snapshot = checkpoint.load()
        if snapshot is None or snapshot.stage != stage.name:
            return
        stage.module.load_state_dict(snapshot.tensors["module"])
        restore_optimiser(guard.optimiser, snapshot.tensors.get("optimiser", {}))
        torch.set_rng_state(snapshot.tensors["random"]["torch"])
        generator.set_state(snapshot.tensors["random"]["ours"])
        self.best_state = snapshot.tensors["best"]
        self.epoch, self.best_epoch = snapshot.numbers["epoch"], snapshot.numbers["best_epoch"]
        self.best = snapshot.numbers["best"]
        guard.resume(snapshot.numbers)


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
        if self._since >= self.REFRESH:
            self.refresh()
        return float(value.detach())

    def refresh(self) -> None:
        """Take the present state for a good one, if it is finite."""
        if all(bool(torch.isfinite(p).all()) for group in self.optimiser.param_groups for p in group["params"]):
            self._good, self._since = self._state(), 0

    def numbers(self) -> dict[str, float]:
        """What a resumed run has to know of the steps that went wrong."""
        return {"slowdown": self.slowdown, "rollbacks": self._rollbacks}

    def resume(self, numbers: dict[str, Any]) -> None:
        """Go on from there."""
        self.slowdown, self._rollbacks = numbers["slowdown"], numbers["rollbacks"]
        self.refresh()

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
