"""What happened in a run, one record an epoch."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Epoch:
    """One epoch of one stage."""

    stage: str
    epoch: int
    train_loss: float
    held_out_nlp: float
    seconds: float
    note: str = ""


@dataclass
class History:
    """All epochs so far; kept in a file of JSON lines too, if there is one."""

    path: Path | None = None
    epochs: list[Epoch] = field(default_factory=list)

    def add(self, epoch: Epoch) -> None:
        """Record an epoch, on disk at once."""
        self.epochs.append(epoch)
        if self.path is not None:
            with self.path.open("a") as lines:
                lines.write(json.dumps(asdict(epoch)) + "\n")

    def of(self, stage: str) -> list[Epoch]:
        """The epochs of one stage."""
        return [epoch for epoch in self.epochs if epoch.stage == stage]
