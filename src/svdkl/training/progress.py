"""How far a stage of training has come, and its best epochs so far."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from svdkl.shapes import Tensor
from svdkl.training.averaging import Average
from svdkl.training.checkpoint import Snapshot, optimiser_tensors, restore_optimiser
from svdkl.training.guard import snapshot
from svdkl.training.scoring import AS_IS, SCALED, Score

PARTS = ("module", "optimiser", "average")  # of a standing, that are tensors
NOW = "now"  # the name of the latest standing in a snapshot; others have their epoch's number


@dataclass(frozen=True)
class Standing:
    """Everything that the next step depends on, beside the data: a stage goes on from it, and so may the next stage."""

    module: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    average: dict[str, Tensor]
    averaged_steps: int

    @classmethod
    def of(cls, module: nn.Module, optimiser: torch.optim.Optimizer, average: Average) -> "Standing":
        """A copy of how things stand."""
        moments = {name: tensor.clone() for name, tensor in optimiser_tensors(optimiser, module).items()}
        return cls(snapshot(module), moments, average.state(), average.steps)

    def take_up(self, module: nn.Module, optimiser: torch.optim.Optimizer, average: Average) -> None:
        """Let things stand so again."""
        module.load_state_dict(self.module)
        restore_optimiser(optimiser, module, self.optimiser)
        average.load(self.average, self.averaged_steps)

    @property
    def averaged(self) -> dict[str, Tensor]:
        """The module with its averaged weights."""
        return {**self.module, **self.average}


@dataclass(frozen=True)
class Best:
    """The best epoch by a criterion, and how things stood then."""

    score: float
    epoch: int  # how many had been done
    standing: Standing


@dataclass
class Progress:
    """Epochs of a stage, of at most so many, which ends when no score has become better for ``patience`` of them."""

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
        """Keep how things stand, if a score is the best so far."""
        better = [
            criterion
            for criterion in (AS_IS, SCALED)
            if criterion not in self.best or score.by(criterion) < self.best[criterion].score
        ]
        if better:
            now = standing()
            self.best |= {criterion: Best(score.by(criterion), self.epoch, now) for criterion in better}

    def standings(self) -> dict[str, Standing]:
        """At the best epochs, by criterion; one and the same where these are."""
        return {criterion: best.standing for criterion, best in self.best.items()}

    def snapshot(self, stage: str, now: Standing, beside: Mapping[str, Any]) -> Snapshot:
        """Everything that the next epoch depends on; an epoch that is best by both criteria is in it once."""
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
        """Take up a snapshot; how things stood then comes back."""
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


def state_to_scale(standings: Mapping[str, Standing]) -> dict[str, Tensor] | None:
    """The averaged weights of the epoch that is best after a temperature; None if it is the best as it is, too."""
    return None if standings[SCALED] is standings[AS_IS] else standings[SCALED].averaged
