"""What happened in a run, one record an epoch."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Epoch:
    """One epoch of one stage.

    Attributes
    ----------
    held_out_nlp, scaled_nlp
        Mean negative log probability of the held-out rows, as it is and, for classes, with the best temperature.
    seconds, core_seconds
        On the clock, and of all cores together.
    kept
        Whether the stage left its module with the weights of this epoch; where it does so of none, with those that it
        started from.
    """

    stage: str
    epoch: int
    train_loss: float
    held_out_nlp: float
    seconds: float
    core_seconds: float | None = None
    scaled_nlp: float | None = None
    note: str = ""
    kept: bool = False


@dataclass
class History:
    """All epochs so far; kept in a file of JSON lines too, if there is one."""

    path: Path | None = None
    epochs: list[Epoch] = field(default_factory=list)

    def add(self, epoch: Epoch) -> None:
        """Record an epoch, on disk at once."""
        self.epochs.append(epoch)
        self._write([epoch], "a")

    def keep(self, stage: str, number: int) -> None:
        """Mark the epoch whose weights a stage ended with; 0 stands for those that it started from."""
        self.epochs = [
            replace(epoch, kept=epoch.epoch == number) if epoch.stage == stage else epoch for epoch in self.epochs
        ]
        self._write(self.epochs, "w")

    def to_json(self) -> list[dict[str, Any]]:
        """All epochs as plain dictionaries."""
        return [asdict(epoch) for epoch in self.epochs]

    def restore(self, epochs: Sequence[dict[str, Any]]) -> None:
        """Go on from these epochs; what came after them, in a run that was cut off, is forgotten."""
        self.epochs = [Epoch(**epoch) for epoch in epochs]
        self._write(self.epochs, "w")

    def of(self, stage: str) -> list[Epoch]:
        """The epochs of one stage."""
        return [epoch for epoch in self.epochs if epoch.stage == stage]

    def _write(self, epochs: Sequence[Epoch], mode: str) -> None:
        if self.path is None:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open(mode) as lines:
                lines.writelines(json.dumps(asdict(epoch)) + "\n" for epoch in epochs)
        except OSError as error:
            raise OSError(
                f"Expected to write an epoch to {self.path}, but that failed ({error}): what was saved before is still "
                f"there; free some space or choose another folder, then resume."
            ) from error
