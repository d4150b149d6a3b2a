"""How good a module is on held-out rows, and which epochs of a stage were the best.

Which epoch do we keep? A network that goes on learning tells classes better and better apart, and becomes too sure of
itself meanwhile. A temperature or the held-out evidence repairs that. If one of them follows, we keep the epoch with
the lowest held-out score *after* a temperature; if the module is used as it is, the epoch with the lowest score as it
is. Both are tracked in every stage, and a stage ends when neither has become better for ``patience`` epochs.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn

from svdkl.gp.additive import NonFiniteFeaturesError
from svdkl.shapes import Float, Tensor
from svdkl.training.averaging import Average
from svdkl.training.batches import Rows, rows_at_once
from svdkl.training.checkpoint import Snapshot, optimiser_tensors, restore_optimiser
from svdkl.training.distributed import ALONE, WorkerGroup
from svdkl.training.optimisers import snapshot

AS_IS, SCALED = "as it is", "scaled"
# Temperatures from 0.37 to 4.5: two deviations of their prior below 1, and three above, where networks are.
LOG_TEMPERATURES = torch.arange(-16, 25, dtype=torch.float64) / 16

PARTS = ("module", "optimiser", "average")  # the groups of tensors of a standing
NOW = "now"  # the name of the latest standing in a snapshot; others have their epoch's number


class Score(NamedTuple):
    """Mean negative log predictive probabilities of held-out rows."""

    as_is: float
    scaled: float | None  # with the likeliest temperature, less its log prior; None where there are no classes

    def by(self, criterion: str) -> float:
        """The score by a criterion; as it is where there is no other."""
        return self.as_is if criterion == AS_IS or self.scaled is None else self.scaled


@torch.no_grad()
def held_out_score(
    log_predictive: Callable[[Rows], Tensor],
    probabilities: Callable[[Rows], Tensor] | None,
    held_out: Rows,
    workers: WorkerGroup = ALONE,
    temperature_spread: float = 0.5,
) -> Score:
    """Score the held-out rows, of which each worker takes its share.

    Parameters
    ----------
    log_predictive
        A function from rows to log p(y_i) of each.
    probabilities
        A function from rows to the probabilities of all classes, (rows, C), where targets are labels 0..C-1. It is
        then the only one that is called.
    temperature_spread
        Deviation of log T before any row is seen: rows that are all predicted right have no best T above zero.
    """
    # The sums of the weights, of the loss as it is, and of the loss with each temperature.
    numbers = torch.zeros(2 + (0 if probabilities is None else len(LOG_TEMPERATURES)), dtype=torch.float64)
    for index in torch.arange(len(held_out))[workers.share(len(held_out))].split(rows_at_once(held_out.x)):
        rows = held_out.take(index)
        weight = torch.ones(len(rows), device=rows.x.device) if rows.weight is None else rows.weight
        numbers[0] += float(weight.sum())
        try:
            if probabilities is None:
                numbers[1] -= float((weight * log_predictive(rows)).sum())
            else:
                numbers[1:] += _losses(probabilities(rows), rows.y, weight)
        except NonFiniteFeaturesError:
            numbers[1:] = math.inf
    weights, *losses = workers.sums(numbers.tolist())
    means = [loss / max(weights, 1e-300) for loss in losses]
    as_is, *scaled = (mean if math.isfinite(mean) else math.inf for mean in means)
    if not scaled:
        return Score(as_is, None)
    priors = (0.5 * (LOG_TEMPERATURES / temperature_spread).square() / max(weights, 1e-300)).tolist()
    return Score(as_is, _lowest([loss + prior for loss, prior in zip(scaled, priors)]))


def _losses(probabilities: Float[Tensor, "B C"], labels: Tensor, weight: Float[Tensor, "B"]) -> Tensor:
    """Return -Σ_i weight_i log p_i(y_i) for p as it is, and for the normalised p^(1/T) of each temperature T."""
    log_p = probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()
    chosen = log_p.gather(1, labels.long().unsqueeze(1)).squeeze(1)
    losses = [-float((weight * chosen).sum())]
    for inverse in (-LOG_TEMPERATURES).exp().tolist():
        log_prob = inverse * chosen - (inverse * log_p).logsumexp(1)
        losses.append(-float((weight * log_prob).sum()))
    return torch.tensor(losses, dtype=torch.float64)


def _lowest(losses: list[float]) -> float:
    """The least value of a smooth function on a grid: of the parabola through the lowest point and its neighbours."""
    at = min(range(len(losses)), key=losses.__getitem__)
    if not 0 < at < len(losses) - 1 or not all(map(math.isfinite, losses[at - 1 : at + 2])):
        return losses[at]
    left, middle, right = losses[at - 1 : at + 2]
    curvature = left - 2 * middle + right
    return middle - (right - left) ** 2 / (8 * curvature) if curvature > 0 else middle


@dataclass(frozen=True)
class Standing:
    """Everything that the next step depends on, beside the data: this stage or the next one can go on from it."""

    module: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    average: dict[str, Tensor]
    averaged_steps: int

    @classmethod
    def of(cls, module: nn.Module, optimiser: torch.optim.Optimizer, average: Average) -> "Standing":
        """Copy how things stand."""
        moments = {name: tensor.clone() for name, tensor in optimiser_tensors(optimiser, module).items()}
        return cls(snapshot(module), moments, average.state(), average.steps)

    def take_up(self, module: nn.Module, optimiser: torch.optim.Optimizer, average: Average) -> None:
        """Give module, optimiser and average these numbers again."""
        module.load_state_dict(self.module)
        restore_optimiser(optimiser, module, self.optimiser)
        average.load(self.average, self.averaged_steps)

    @property
    def averaged(self) -> dict[str, Tensor]:
        """The module's state with averaged weights."""
        return {**self.module, **self.average}


@dataclass(frozen=True)
class Best:
    """The best epoch by a criterion, and how things stood then."""

    score: float
    epoch: int  # epochs done by then; 0 stands for the start of the stage
    standing: Standing


@dataclass
class Progress:
    """How far a stage is. It ends after ``most`` epochs, or when no score was better for ``patience`` epochs."""

    most: int
    patience: int
    epoch: int = 0  # epochs done
    best: dict[str, Best] = field(default_factory=dict)  # by criterion

    @property
    def has_ended(self) -> bool:
        """Whether there are no more epochs to come."""
        since_best = self.epoch - max(best.epoch for best in self.best.values())
        return self.epoch >= self.most or since_best >= self.patience

    def note(self, score: Score, standing: Callable[[], Standing]) -> None:
        """Keep how things stand if a score is the best so far."""
        better = [
            criterion
            for criterion in (AS_IS, SCALED)
            if criterion not in self.best or score.by(criterion) < self.best[criterion].score
        ]
        if better:
            now = standing()
            self.best |= {criterion: Best(score.by(criterion), self.epoch, now) for criterion in better}

    def snapshot(self, stage: str, now: Standing, beside: Mapping[str, Any]) -> Snapshot:
        """Collect everything that the next epoch depends on; an epoch that is best by both criteria is stored once."""
        standings = {NOW: now, **{str(best.epoch): best.standing for best in self.best.values()}}
        tensors = {f"{key}.{part}": getattr(of, part) for key, of in standings.items() for part in PARTS}
        numbers = {
            "epoch": self.epoch,
            "ended": self.has_ended,
            "best": {criterion: [best.score, best.epoch] for criterion, best in self.best.items()},
            "averaged_steps": {key: of.averaged_steps for key, of in standings.items()},
        }
        return Snapshot(stage, tensors, {**numbers, **beside})

    def restore(self, snapshot: Snapshot) -> Standing:
        """Take up a snapshot, and return how things stood then."""
        numbers = snapshot.numbers
        standings = {
            key: Standing(
                module=snapshot.tensors[f"{key}.module"],
                optimiser=snapshot.tensors.get(f"{key}.optimiser", {}),
                average=snapshot.tensors[f"{key}.average"],
                averaged_steps=steps,
            )
            for key, steps in numbers["averaged_steps"].items()
        }
        self.epoch = numbers["epoch"]
        self.best = {key: Best(score, epoch, standings[str(epoch)]) for key, (score, epoch) in numbers["best"].items()}
        return standings[NOW]
