"""One stage of training: epochs of minibatches; after each the averaged weights are scored, and the best are kept.

All stages of all recipes run through :func:`run_stage`, so that comparisons between recipes are fair.
"""

import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from svdkl.shapes import Tensor
from svdkl.training.averaging import Average
from svdkl.training.batches import Rows, Source
from svdkl.training.best_epochs import AS_IS, Progress, Score, Standing, held_out_score
from svdkl.training.checkpoint import Checkpoint
from svdkl.training.config import TrainingConfig
from svdkl.training.distributed import WorkerGroup, joined
from svdkl.training.history import Epoch, History
from svdkl.training.optimisers import Group, Guard, choose_groups, make_optimiser, rate_factor, set_rates

OnEpoch = Callable[[Epoch], None]  # called after every epoch
# Called after a stage with its name and how things stood at its best epoch by each criterion.
OnStageEnd = Callable[[str, Mapping[str, Standing]], None]


@dataclass(frozen=True)
class Stage:
    """A module to train, with its loss and its score on held-out rows."""

    name: str
    module: nn.Module
    groups: list[Group]
    loss: Callable[[Rows], Tensor]  # of a batch
    log_predictive: Callable[[Rows], Tensor]
    epochs: range  # which epochs of the run's schedule these are
    batch_size: int
    probabilities: Callable[[Rows], Tensor] | None = None  # of all classes, where there are classes
    criterion: str = AS_IS  # which score chooses the epoch that the stage ends with


def run_stage(
    stage: Stage,
    train: Source,
    held_out: Rows,
    config: TrainingConfig,
    generator: torch.Generator,
    history: History,
    checkpoint: Checkpoint | None = None,
    on_epoch: OnEpoch = lambda epoch: None,
    on_stage_end: OnStageEnd | None = None,
    start: Standing | None = None,
) -> dict[str, Standing]:
    """Train a stage, and leave its module with the averaged weights of the best held-out score, the start included.

    In a group of workers each takes its share of every batch; all end with the same parameters. The stage ends when no
    score has become better for ``patience`` epochs, so its number of epochs does not depend on the criterion.

    With a checkpoint, the state after every epoch is on disk. A stage that is found there goes on from it, and the
    result is bit for bit the result of a run that was never interrupted.

    Parameters
    ----------
    generator
        Source of the order of rows and of noise; it is seeded anew for every epoch.
    start
        How things stood where the stage before ended; None for a fresh optimiser and the module as it is.

    Returns
    -------
    dict of Standing
        How things stood at the best epoch by each criterion.
    """
    workers = joined()
    steps_per_epoch = train.steps(stage.batch_size)
    network_steps = train.steps(config.batch_size)  # an epoch's steps in which schedule and average count
    as_large = network_steps / steps_per_epoch  # how many such steps a step of this stage stands for
    optimiser = make_optimiser(stage.groups, as_large)
    run_steps, stage_steps = config.epochs * network_steps, len(stage.epochs) * steps_per_epoch
    guard = Guard(stage.module, optimiser, workers)
    average = Average(stage.module, config.averaging**as_large, config.averaging_start)
    if start is not None:
        start.take_up(stage.module, optimiser, average)
        guard.refresh()
    progress = Progress(len(stage.epochs), config.patience)
    stands = partial(Standing.of, stage.module, optimiser, average)
    found = checkpoint.load() if checkpoint is not None else None
    if found is None or found.stage != stage.name:
        progress.note(_score(stage, held_out, average, workers, config.temperature_spread), stands)
    else:
        progress.restore(found).take_up(stage.module, optimiser, average)
        guard.resume(found.numbers)
        history.restore(found.numbers["history"])

    began, began_cores = time.perf_counter(), time.process_time()
    while not progress.has_ended:
        total = 0.0
        _seed(config.seed, stage, progress.epoch, generator, workers)
        step = start_step = progress.epoch * steps_per_epoch
        before = stage.epochs.start * steps_per_epoch
        stage.module.train()
        for batch in train.batches(stage.epochs.start + progress.epoch, stage.batch_size, generator, workers):
            in_run = rate_factor((before + step) * as_large, run_steps, config.warmup_steps)
            in_stage = rate_factor(step, stage_steps, config.warmup_steps)
            set_rates(optimiser, in_run * guard.slowdown, in_stage * guard.slowdown)
            choose_groups(optimiser, step)
            total += guard.step(partial(stage.loss, batch), config.clip, len(batch))
            average.update()
            step += 1
        choose_groups(optimiser, 0)
        # Buffers that follow the batches differ, and so do their averages.
        workers.equalise([*stage.module.state_dict().values(), *average.tensors()])
        score = _score(stage, held_out, average, workers, config.temperature_spread)
        progress.epoch += 1
        progress.note(score, stands)
        guard.refresh()
        # With the state of the epoch before, which was put on disk after its time was taken.
        seconds, cores = time.perf_counter() - began, time.process_time() - began_cores
        began, began_cores = began + seconds, began_cores + cores
        loss = total / max(1, step - start_step)
        epoch = Epoch(stage.name, progress.epoch, loss, score.as_is, seconds, cores, score.scaled)
        history.add(epoch)
        on_epoch(epoch)
        if checkpoint is not None and workers.first:
            beside = {**guard.numbers(), "history": history.to_json()}
            checkpoint.save(progress.snapshot(stage.name, stands(), beside))
    standings = {criterion: best.standing for criterion, best in progress.best.items()}
    history.keep(stage.name, progress.best[stage.criterion].epoch)
    stage.module.load_state_dict(standings[stage.criterion].averaged)
    stage.module.eval()
    if on_stage_end is not None:
        on_stage_end(stage.name, standings)
    return standings


def _seed(seed: int, stage: Stage, epoch: int, generator: torch.Generator, workers: WorkerGroup) -> None:
    """Seed an epoch by its place in the run alone, so that a resumed epoch draws the same numbers.

    Order and noise come from the generator, alike in all workers. Dropout draws from torch's own generator, which each
    worker seeds in its own way.
    """
    place = [seed, zlib.crc32(stage.name.encode()), epoch]
    generator.manual_seed(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0] >> 1))
    torch.manual_seed(int(np.random.SeedSequence([*place, workers.rank]).generate_state(1, np.uint64)[0] >> 1))


def _score(stage: Stage, held_out: Rows, average: Average, workers: WorkerGroup, spread: float) -> Score:
    stage.module.eval()
    with average.in_place():
        return held_out_score(stage.log_predictive, stage.probabilities, held_out, workers, spread)
