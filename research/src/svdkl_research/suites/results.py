"""Folders of results: results/SUITE/DATASET/MODEL/RUN/ with metrics.json, config.json and provenance.json.

A folder is there as a whole or not at all: it is written under another name and renamed. Results of one fit are put
in place together, so that no other fit's stand among them.
"""

import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from svdkl.writing import folder_put_in_place
from svdkl_research.suites.suite import WHOLE, Suite, Task

FILES = ("metrics", "config", "provenance")
RUNS = "fold*-seed*"

Documents = Mapping[str, Mapping[str, Any]]  # one for each of the files


@dataclass(frozen=True)
class Result:
    """What one run of one model gave."""

    dataset: str
    model: str
    run: str
    metrics: dict[str, Any]
    config: dict[str, Any]
    provenance: dict[str, Any]

    @property
    def share(self) -> Fraction:
        """Of the training rows."""
        return Fraction(self.config.get("share", WHOLE))


def folder_of(root: Path, task: Task, result: str) -> Path:
    """Where a result of a task belongs."""
    return root / task.suite / task.dataset / result / task.run


def checkpoint_of(scratch: Path, task: Task) -> Path:
    """Where the state of a task's training is kept until the task is finished, in a folder of its own."""
    return folder_of(scratch, task, task.model) / "training" / "checkpoint.safetensors"


def fork_of(scratch: Path, task: Task) -> Path:
    """Where another fit leaves the epochs that a task begins with."""
    return folder_of(scratch, task, task.model) / "fork.safetensors"


def open_scratch(root: Path) -> None:
    """Make the scratch folder, if it is not there, one that git does not look into."""
    root.mkdir(parents=True, exist_ok=True)
    ignored = root / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n")


def refuse_unwritable(folder: Path, option: str) -> None:
    """Refuse a folder that cannot be made or written to, which would show only after hours of training."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise OSError(
            f"Expected {option} to be a folder that can be written to, but {existing} cannot: choose another."
        )


def is_finished(root: Path, task: Task, results: tuple[str, ...]) -> bool:
    """Whether all results of a task are there."""
    return all(folder_of(root, task, result).is_dir() for result in results)


def write_results(results: Mapping[Path, Documents]) -> None:
    """Write the results of one fit, by their folders. If all are there already, they stay; else all are replaced."""
    if all(folder.is_dir() for folder in results):
        return
    with ExitStack() as stack:
        # The last to come in is the first to be put in place: while a result of another fit stands there, one that was
        # missing is missing still, and who is killed meanwhile finds a task that is not finished.
        for folder in sorted(results, key=Path.is_dir):
            beside = stack.enter_context(folder_put_in_place(folder))
            for name in FILES:
                with (beside / f"{name}.json").open("w") as file:
                    json.dump(_plain(results[folder][name]), file, indent=2, allow_nan=False)
                    file.write("\n")
                    file.flush()
                    os.fsync(file.fileno())


def copy_results(root: Path, source: Task, task: Task, results: tuple[str, ...]) -> None:
    """The same documents in another task's place."""
    found = {folder_of(root, task, result): folder_of(root, source, result) for result in results}
    write_results({to: {name: _read(of / f"{name}.json") for name in FILES} for to, of in found.items()})


def remove_remains(root: Path, task: Task, results: tuple[str, ...]) -> None:
    """Delete what a killed process has left of this task."""
    for result in results:
        folder = folder_of(root, task, result)
        for part in folder.parent.glob(f".{folder.name}.*"):
            shutil.rmtree(part, ignore_errors=True)


def read_results(root: Path, suite: Suite, damaged: Literal["refused", "skipped"] = "refused") -> Iterator[Result]:
    """All results of a suite that are there; what else lies in their folders is passed over."""
    for dataset in suite.datasets:
        for model in suite.results:
            for folder in sorted((root / suite.name / dataset / model).glob(RUNS)):
                if folder.is_dir() and (damaged == "refused" or is_whole(folder)):
                    yield _result(dataset, model, folder)


def read_fit(root: Path, task: Task, results: tuple[str, ...]) -> list[Result]:
    """The results of one fit, which is finished."""
    return [_result(task.dataset, result, folder_of(root, task, result)) for result in results]


def values_of(results: Iterable[Result], key: str) -> list[float]:
    """The numbers that results have under a key, of those that have one."""
    return [float(result.metrics[key]) for result in results if result.metrics.get(key) is not None]


def is_whole(folder: Path) -> bool:
    """Whether the documents of a result can be read."""
    try:
        for name in FILES:
            _read(folder / f"{name}.json")
    except ValueError:
        return False
    return True


def _result(dataset: str, model: str, folder: Path) -> Result:
    return Result(dataset, model, folder.name, *(_read(folder / f"{name}.json") for name in FILES))


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(
            f"Expected a result in {path}, but it cannot be read: delete its folder and run the suite again."
        ) from error


def _plain(value: Any) -> Any:
    """What JSON can hold: numbers that are not finite as null, and anything that it does not know as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return repr(value)
