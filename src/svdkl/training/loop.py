"""One stage of training: epochs of minibatches, a held-out score of the averaged weights after each, the best kept.

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
from svdkl.training.averaging import Average
from svdkl.training.checkpoint import Checkpoint, Snapshot, optimiser_tensors, restore_optimiser
from svdkl.training.config import TrainingConfig
from svdkl.training.history import Epoch, History
from svdkl.training.optimisers import Group, choose_groups, make_optimiser, rate_factor, set_rates
from svdkl.training.rows import Rows, shuffled_batches

MAX_ROLLBACKS = 5  # steps that may go wrong in a stage before giving up
BACKTRACK = 0.3  # what a rollback leaves of the rates
EVALUATION_ROWS = 16_384
PARTS = ("module", "optimiser", "average")  # of a standing, that are tensors


@dataclass(frozen=True)
class Stage:
    """What is trained, on which loss, and how it is scored on held-out rows."""

    name: str
    module: nn.Module
    groups: list[Group]
    loss: Callable[[Rows, float], Tensor]  # of a batch; the second argument is the share of the stage that is over
    log_predictive: Callable[[Rows], Tensor]
    epochs: range  # of the run's: one schedule of rates spans its stages


@dataclass(frozen=True)
class Standing:
    """Everything that the next step depends on, beside the data: a stage goes on from it, and so may the next stage."""

    module: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    average: dict[str, Tensor]
    averaged_steps: int


def run_stage(
    stage: Stage,
    train: Rows,
    held_out: Rows,
    config: TrainingConfig,
    generator: torch.Generator,
    history: History,
    checkpoint: Checkpoint | None = None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    start: Standing | None = None,
) -> Standing:
    """Train a stage and leave its module with the averaged weights of the best held-out score, the first included.

    Parameters
    ----------
    start
        Where to go on from; the module as it is, if there is none.

    Returns
    -------
    Standing
        At the best epoch. With a checkpoint, the state after every epoch is on disk, and a stage that is found there
        goes on from it: the result is bit for bit that of a run that was never interrupted.
    """
    optimiser = make_optimiser(stage.groups)
    steps_per_epoch = math.ceil(len(train.x) / config.batch_size)
    run_steps, stage_steps = config.epochs * steps_per_epoch, len(stage.epochs) * steps_per_epoch
    guard = Guard(stage.module, optimiser)
    average = Average(stage.module, config.averaging)
    if start is not None:
        _take_up(start, stage.module, optimiser, average)
        guard.refresh()
    found = _found(checkpoint, stage.name)
    if found is None:
        progress = Progress(_score(stage, held_out, average), _standing(stage.module, optimiser, average))
    else:
        progress = Progress.restored(found, stage, guard, average, generator)

    while progress.epoch < len(stage.epochs) and progress.epoch - progress.best_epoch < config.patience:
        began, total = time.perf_counter(), 0.0
        step = progress.epoch * steps_per_epoch
        before = stage.epochs.start * steps_per_epoch
        stage.module.train()
        for batch in shuffled_batches(train, config.batch_size, generator):
            in_run = rate_factor(before + step, run_steps, config.warmup_steps)
            in_stage = rate_factor(step, stage_steps, config.warmup_steps)
            set_rates(optimiser, in_run * guard.slowdown, in_stage * guard.slowdown)
            choose_groups(optimiser, step)
            total += guard.step(partial(stage.loss, batch, step / stage_steps), config.clip) * len(batch.x)
            average.update()
            step += 1
        choose_groups(optimiser, 0)
        score = _score(stage, held_out, average)
        progress.epoch += 1
        if score < progress.best:
            progress.best, progress.best_epoch = score, progress.epoch
            progress.best_standing = _standing(stage.module, optimiser, average)
        guard.refresh()
        epoch = Epoch(stage.name, progress.epoch, total / len(train.x), score, time.perf_counter() - began)
        history.add(epoch)
        on_epoch(epoch)
        if checkpoint is not None:
            progress.save(checkpoint, stage, guard, average, generator)
    best = progress.best_standing
    stage.module.load_state_dict({**best.module, **best.average})
    stage.module.eval()
    return best


def _score(stage: Stage, held_out: Rows, average: Average) -> float:
    with average.in_place():
        return held_out_nlp(stage, held_out)


def _standing(module: nn.Module, optimiser: torch.optim.Optimizer, average: Average) -> Standing:
    moments = {name: tensor.clone() for name, tensor in optimiser_tensors(optimiser, module).items()}
    return Standing(snapshot(module), moments, average.state(), average.steps)


def _take_up(standing: Standing, module: nn.Module, optimiser: torch.optim.Optimizer, average: Average) -> None:
    module.load_state_dict(standing.module)
    restore_optimiser(optimiser, module, standing.optimiser)
    average.load(standing.average, standing.averaged_steps)


def _found(checkpoint: Checkpoint | None, stage: str) -> Snapshot | None:
    snapshot = checkpoint.load() if checkpoint is not None else None
    return snapshot if snapshot is not None and snapshot.stage == stage else None


@dataclass
class Progress:
    """Where a stage stands after an epoch."""

    best: float
    best_standing: Standing
    epoch: int = 0  # epochs done
    best_epoch: int = 0  # how many had been done at the best score

    def save(
        self, checkpoint: Checkpoint, stage: Stage, guard: "Guard", average: Average, generator: torch.Generator
    ) -> None:
        """Put everything that the next epoch depends on on disk."""
        now = _standing(stage.module, guard.optimiser, average)
        tensors = {
            **{f"{key}.{part}": getattr(of, part) for key, of in self._both(now) for part in PARTS},
            # Dropout draws from torch's own generator, the order of rows and the noise from ours.
            "random": {"torch": torch.get_rng_state(), "ours": generator.get_state()},
        }
        numbers = {"epoch": self.epoch, "best": self.best, "best_epoch": self.best_epoch}
        steps = {f"{key}.averaged_steps": of.averaged_steps for key, of in self._both(now)}
        checkpoint.save(Snapshot(stage.name, tensors, {**numbers, **steps, **guard.numbers()}))

    def _both(self, now: Standing) -> list[tuple[str, Standing]]:
        return [("now", now), ("best", self.best_standing)]

    @classmethod
    def restored(
        cls, snapshot: Snapshot, stage: Stage, guard: "Guard", average: Average, generator: torch.Generator
    ) -> "Progress":
        """Take up a snapshot of this stage."""
        now, best = (
            Standing(
                module=snapshot.tensors[f"{key}.module"],
                optimiser=snapshot.tensors.get(f"{key}.optimiser", {}),
                average=snapshot.tensors[f"{key}.average"],
                averaged_steps=snapshot.numbers[f"{key}.averaged_steps"],
            )
            for key in ("now", "best")
        )
        _take_up(now, stage.module, guard.optimiser, average)
        torch.set_rng_state(snapshot.tensors["random"]["torch"])
        generator.set_state(snapshot.tensors["random"]["ours"])
        guard.resume(snapshot.numbers)
        numbers = snapshot.numbers
        return cls(numbers["best"], best, numbers["epoch"], numbers["best_epoch"])


@torch.no_grad()
def held_out_nlp(stage: Stage, held_out: Rows) -> float:
    """Mean negative log predictive probability of the held-out rows."""
    stage.module.eval()
    total = weights = 0.0
    for index in torch.arange(len(held_out.x)).split(EVALUATION_ROWS):
        rows = held_out.take(index)
        weight = torch.ones(len(rows.x), device=rows.x.device) if rows.weight is None else rows.weight
        try:
            total -= float((weight * stage.log_predictive(rows)).sum())
        except NonFiniteFeaturesError:
            return math.inf
        weights += float(weight.sum())
    score = total / max(weights, 1e-300)
    return score if math.isfinite(score) else math.inf


def snapshot(module: nn.Module) -> dict[str, Any]:
    """A copy of all parameters and buffers."""
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
