"""The epochs of a run: kept as records, and shown as a bar on a terminal or as plain lines elsewhere."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from svdkl.training.config import JOINT, TrainingConfig
from svdkl.writing import written_whole


@dataclass(frozen=True)
class Epoch:
    """One epoch of one stage.

    Attributes
    ----------
    held_out_nlp, scaled_nlp
        Mean negative log probability of the held-out rows, as it is and, for classes, with the best temperature.
    seconds, core_seconds
        Time on the clock, and time of all cores together.
    kept
        Whether the stage ended with the weights of this epoch. A stage that keeps none ended with those of its start.
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
    """All epochs so far, also in a file of JSON lines if ``path`` is given."""

    path: Path | None = None
    epochs: list[Epoch] = field(default_factory=list)

    def add(self, epoch: Epoch) -> None:
        """Record an epoch, at once on disk too."""
        self.epochs.append(epoch)
        if self.path is not None:
            with _written_to(self.path), self.path.open("a") as lines:
                lines.write(_line(epoch))

    def keep(self, stage: str, number: int) -> None:
        """Mark the epoch whose weights a stage ended with; 0 stands for the stage's start."""
        self.epochs = [
            replace(epoch, kept=epoch.epoch == number) if epoch.stage == stage else epoch for epoch in self.epochs
        ]
        self._write_anew()

    def to_json(self) -> list[dict[str, Any]]:
        """All epochs as plain dictionaries."""
        return [asdict(epoch) for epoch in self.epochs]

    def restore(self, epochs: Sequence[dict[str, Any]]) -> None:
        """Go on from these epochs; later ones, of a run that was cut off, are forgotten."""
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


class Display:
    """A display shows the epochs of a run as they come: use it in a ``with`` block and give :meth:`show` to training.

    Parameters
    ----------
    going_on
        Whether a trained model is trained further, in one stage of all epochs.
    stream
        Where the epochs are written; by default standard error, so that a program's own output stays separate.

    Examples
    --------
    >>> rows = Rows(torch.randn(200, 8), torch.randint(2, (200,)))
    >>> net, config = MLP(8, (16,), 4), TrainingConfig(pretrain_epochs=2, joint_epochs=1)
    >>> with Display(config) as display:
    ...     model = train(net, GPHead(4, 2, grid_size=8), rows, rows, config, on_epoch=display.show)
    """

    def __init__(self, config: TrainingConfig, going_on: bool = False, stream: Any = None) -> None:
        self.total = config.epochs if going_on else config.epochs_in_all
        self.before_joint = 0 if going_on else config.network_epochs
        self.stream = stream if stream is not None else sys.stderr
        self._bar: Any = None

    def __enter__(self) -> "Display":
        if self.stream.isatty():
            # Imported here, since only a terminal needs it.
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed}/{task.total} epochs"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=Console(file=self.stream))
            self._bar.start()
            self._task = self._bar.add_task("network", total=self.total)
        return self

    def show(self, epoch: Epoch) -> None:
        """Show an epoch that is over."""
        line = f"{epoch.stage} {epoch.epoch}: loss {epoch.train_loss:.4f}, held-out {epoch.held_out_nlp:.4f}"
        if epoch.scaled_nlp is not None:
            line += f" ({epoch.scaled_nlp:.4f} scaled)"
        if self._bar is None:
            print(f"{line}, {epoch.seconds:.1f} s", file=self.stream, flush=True)
            return
        # A stage that ended early leaves epochs out, which the bar skips.
        before = self.before_joint if epoch.stage == JOINT else 0
        self._bar.update(self._task, description=line, completed=before + epoch.epoch)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
