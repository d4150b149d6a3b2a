"""One stage of training: epochs of minibatches, a held-out score of the averaged weights after each, the best kept.

Every recipe's every stage runs through :func:`run_stage`, so that comparisons between them are fair.
"""

import math
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from svdkl.additive import NonFiniteFeaturesError
from svdkl.shapes import Tensor
from svdkl.training.averaging import Average
from svdkl.training.checkpoint import Checkpoint, Snapshot, optimiser_tensors, restore_optimiser
from svdkl.training.config import TrainingConfig
from svdkl.training.distributed import ALONE, Processes, joined
from svdkl.training.guard import Guard, snapshot
from svdkl.training.history import Epoch, History
from svdkl.training.optimisers import Group, choose_groups, make_optimiser, rate_factor, set_rates
from svdkl.training.rows import Rows, Source, rows_at_once

PARTS = ("module", "optimiser", "average")  # of a standing, that are tensors


@dataclass(frozen=True)
class Stage:
    """What is trained, on which loss, and how it is scored on held-out rows."""

    name: str
    module: nn.Module
    groups: list[Group]
    loss: Callable[[Rows], Tensor]  # of a batch
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
    train: Source,
    held_out: Rows,
    config: TrainingConfig,
    generator: torch.Generator,
    history: History,
    checkpoint: Checkpoint | None = None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    start: Standing | None = None,
) -> Standing:
    """Train a stage and leave its module with the averaged weights of the best held-out score, the first included.

    In a group of processes each takes its share of every batch; all end with the same parameters.

    Parameters
    ----------
    generator
        Source of the order of rows and of noise, seeded anew for every epoch.
    start
        Where to go on from; the module as it is, if there is none.

    Returns
    -------
    Standing
        At the best epoch. With a checkpoint, the state after every epoch is on disk, and a stage that is found there
        goes on from it: the result is bit for bit that of a run that was never interrupted.
    """
    optimiser = make_optimiser(stage.groups)
    processes = joined()
    steps_per_epoch = train.steps(config.batch_size)
    run_steps, stage_steps = config.epochs * steps_per_epoch, len(stage.epochs) * steps_per_epoch
    guard = Guard(stage.module, optimiser, processes)
    average = Average(stage.module, config.averaging)
    if start is not None:
        _take_up(start, stage.module, optimiser, average)
        guard.refresh()
    found = _found(checkpoint, stage.name)
    if found is None:
        progress = Progress(_score(stage, held_out, average, processes), _standing(stage.module, optimiser, average))
    else:
        progress = Progress.restored(found, stage, guard, average)
        history.restore(found.numbers["history"])

    while progress.epoch < len(stage.epochs) and progress.epoch - progress.best_epoch < config.patience:
        began, total = time.perf_counter(), 0.0
        _seed(config.seed, stage, progress.epoch, generator, processes)
        step = start_step = progress.epoch * steps_per_epoch
        before = stage.epochs.start * steps_per_epoch
        stage.module.train()
        for batch in train.batches(stage.epochs.start + progress.epoch, config.batch_size, generator, processes):
            in_run = rate_factor(before + step, run_steps, config.warmup_steps)
            in_stage = rate_factor(step, stage_steps, config.warmup_steps)
            set_rates(optimiser, in_run * guard.slowdown, in_stage * guard.slowdown)
            choose_groups(optimiser, step)
            total += guard.step(partial(stage.loss, batch), config.clip, len(batch))
            average.update()
            step += 1
        choose_groups(optimiser, 0)
        # Buffers that follow the batches differ, and so do their averages.
        processes.equalise([*stage.module.state_dict().values(), *average.tensors()])
        score = _score(stage, held_out, average, processes)
        progress.epoch += 1
        if score < progress.best:
            progress.best, progress.best_epoch = score, progress.epoch
            progress.best_standing = _standing(stage.module, optimiser, average)
        guard.refresh()
        epoch = Epoch(stage.name, progress.epoch, total / max(1, step - start_step), score, time.perf_counter() - began)
        history.add(epoch)
        on_epoch(epoch)
        if checkpoint is not None and processes.first:
            progress.save(checkpoint, stage, guard, average, history)
    best = progress.best_standing
    stage.module.load_state_dict({**best.module, **best.average})
    stage.module.eval()
    return best


def _seed(seed: int, stage: Stage, epoch: int, generator: torch.Generator, processes: Processes) -> None:
    """An epoch's random numbers depend on nothing but its place in the run, so a resumed one draws the same.

    Order and noise come from the generator, alike in all processes; dropout draws from torch's own, each its own.
    """
    place = [seed, zlib.crc32(stage.name.encode()), epoch]
    generator.manual_seed(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> 1))
    torch.manual_seed(int(np.random.SeedSequence([*place, processes.rank]).generate_state(1, np.uint64)[0] >> 1))


def _score(stage: Stage, held_out: Rows, average: Average, processes: Processes) -> float:
    with average.in_place():
        return held_out_nlp(stage, held_out, processes)


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

    def save(self, checkpoint: Checkpoint, stage: Stage, guard: Guard, average: Average, history: History) -> None:
        """Put everything that the next epoch depends on on disk."""
        now = _standing(stage.module, guard.optimiser, average)
        tensors = {f"{key}.{part}": getattr(of, part) for key, of in self._both(now) for part in PARTS}
        numbers = {
            "epoch": self.epoch,
            "best": self.best,
            "best_epoch": self.best_epoch,
            "history": history.to_json(),
        }
        steps = {f"{key}.averaged_steps": of.averaged_steps for key, of in self._both(now)}
        checkpoint.save(Snapshot(stage.name, tensors, {**numbers, **steps, **guard.numbers()}))

    def _both(self, now: Standing) -> list[tuple[str, Standing]]:
        return [("now", now), ("best", self.best_standing)]

    @classmethod
    def restored(cls, snapshot: Snapshot, stage: Stage, guard: Guard, average: Average) -> "Progress":
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
        guard.resume(snapshot.numbers)
        numbers = snapshot.numbers
        return cls(numbers["best"], best, numbers["epoch"], numbers["best_epoch"])


@torch.no_grad()
def held_out_nlp(stage: Stage, held_out: Rows, processes: Processes = ALONE) -> float:
    """Mean negative log predictive probability of the held-out rows, of which each process scores its share."""
    stage.module.eval()
    total = weights = 0.0
    for index in torch.arange(len(held_out))[processes.share(len(held_out))].split(rows_at_once(held_out.x)):
        rows = held_out.take(index)
        weight = torch.ones(len(rows), device=rows.x.device) if rows.weight is None else rows.weight
        try:
            total -= float((weight * stage.log_predictive(rows)).sum())
        except NonFiniteFeaturesError:
            total = math.inf
        weights += float(weight.sum())
    total, weights = processes.sums([total, weights])
    score = total / max(weights, 1e-300)
    return score if math.isfinite(score) else math.inf
