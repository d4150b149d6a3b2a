"""What happened in a run, one record an epoch."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from svdkl.writing import written_whole


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
    kept_to_scale
        Whether its weights are those that a temperature is best put on.
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
    kept_to_scale: bool = False


@dataclass
class History:
    """All epochs so far; kept in a file of JSON lines too, if there is one."""

    path: Path | None = None
    epochs: list[Epoch] = field(default_factory=list)

    def add(self, epoch: Epoch) -> None:
        """Record an epoch, on disk at once."""
        self.epochs.append(epoch)
        if self.path is not None:
            with _written_to(self.path), self.path.open("a") as lines:
                lines.write(_line(epoch))

    def keep(self, stage: str, number: int, to_scale: int) -> None:
        """Mark the epochs whose weights a stage ended with, and those for a temperature; 0 stands for its start."""
        self.epochs = [
            replace(epoch, kept=epoch.epoch == number, kept_to_scale=epoch.epoch == to_scale)
            if epoch.stage == stage
            else epoch
            for epoch in self.epochs
        ]
        self._write_anew()

    def to_json(self) -> list[dict[str, Any]]:
        """All epochs as plain dictionaries."""
        return [asdict(epoch) for epoch in self.epochs]

    def restore(self, epochs: Sequence[dict[str, Any]]) -> None:
        """Go on from these epochs; what came after them, in a run that was cut off, is forgotten."""
        self.epochs = [Epoch(**epoch) for epoch in epochs]
        self._write_anew()

    def of(self, stage: str) -> list[Epoch]:
        """The epochs of one stage."""
        return [epoch for epoch in self.epochs if epoch.stage == stage]

    def _write_anew(self) -> None:
        if self.path is not None:
            with _written_to(self.path), written_whole(self.path) as beside:
                beside.write_text("".join(map(_line, self.epochs)))


@contextmanager
def _written_to(path: Path) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise OSError(
            f"Expected to write an epoch to {path}, but that failed ({error}): what was saved before is still there; "
            f"free some space or choose another folder, then resume."
        ) from error


def _line(epoch: Epoch) -> str:
    return json.dumps(asdict(epoch)) + "\n"
