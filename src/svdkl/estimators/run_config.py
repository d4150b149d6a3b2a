"""What a training run does. Only the standard library is imported here, for the command line's sake."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RunConfig:
    """What a run does, in plain values, so that it can be sent to other machines.

    Attributes
    ----------
    data, target, out
        The file or folder to read, the column to predict, the folder to write.
    task
        "classification", "regression", or "auto": classes are text, booleans, and whole numbers of at most 50 values.
    drop
        Columns that are not used.
    options
        The estimator's parameters.
    resume
        Go on from the checkpoint in ``out``, if there is one; a run that has ended there is taken as it is.
    overwrite
        Forget a run that is there.
    stream
        Whether a Parquet file is streamed instead of read into memory; None decides by its size.
    epoch_rows
        Rows of an epoch of a streamed file; see :meth:`~svdkl.SVDKLClassifier.fit_parquet`.
    """

    data: Path
    target: str
    out: Path
    task: str = "auto"
    drop: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    resume: bool = False
    overwrite: bool = False
    stream: bool | None = None
    epoch_rows: int | None = None
    verbose: bool = True

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "RunConfig":
        """Return the run that a dictionary describes, where paths may be text and names a list."""
        kinds: dict[str, Any] = {"data": Path, "out": Path, "drop": tuple}
        return cls(**{name: kinds[name](value) if name in kinds else value for name, value in fields.items()})
