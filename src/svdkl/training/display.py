"""How far a run is: a bar on a terminal, plain lines elsewhere."""

import sys
from types import TracebackType
from typing import Any

from svdkl.training.config import JOINT, TrainingConfig
from svdkl.training.history import Epoch


class Display:
    """Shows the epochs of a run as they come; use it in a ``with`` block and hand :meth:`show` to the training.

    Parameters
    ----------
    config
        The run's.
    going_on
        Whether a trained model is trained on, in one stage of all epochs.
    stream
        Where to; standard error, so that what a program prints stays its own.

    Examples
    --------
    >>> with Display(config) as display:
    ...     train(net, 20, 2, "softmax", rows, held_out, config, on_epoch=display.show)
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
        """One more epoch is over."""
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
