"""The results of a suite: one line of results/SUITE/runs.jsonl for each run, with metrics, config and provenance.

The file is rewritten whole under a lock, with its lines in order, so that workers may finish at the same moment, the
results of one fit appear together, and a kill at any moment leaves the old file or the new one.
"""

import fcntl
import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple

from svdkl.writing import written_whole
from svdkl_research.suites.suite import WHOLE, Suite, Task

FILE = "runs.jsonl"
LOCK = ".runs.lock"


class Key(NamedTuple):
    """The key of a result within its suite."""

    dataset: str
    model: str
    run: str


@dataclass(frozen=True)
class Result:
    """Metrics, config and provenance of one run of one model."""

    dataset: str
    model: str
    run: str
    metrics: dict[str, Any]
    config: dict[str, Any]
    provenance: dict[str, Any]

    @property
    def key(self) -> Key:
        """The key of the result within its suite."""
        return Key(self.dataset, self.model, self.run)

    @property
    def share(self) -> Fraction:
        """The share of the training rows that the model was fitted to."""
        return Fraction(self.config.get("share", WHOLE))


def keys_of(task: Task, results: Iterable[str]) -> list[Key]:
    """Return the keys of the results that a task gives."""
    return [Key(task.dataset, result, task.run) for result in results]


def runs_file(root: Path, suite: str) -> Path:
    """Return the file with the results of a suite."""
    return root / suite / FILE


def finished_keys(root: Path, suite: str) -> set[Key]:
    """Return the keys of all results of a suite that can be read."""
    lines = _read_lines(runs_file(root, suite))
    return {line.key for line in lines if isinstance(line, Result)}


def is_finished(root: Path, task: Task, results: Iterable[str]) -> bool:
    """Tell whether all results of a task are there."""
    return finished_keys(root, task.suite).issuperset(keys_of(task, results))


def read_results(root: Path, suite: Suite, damaged: Literal["refused", "skipped"] = "refused") -> Iterator[Result]:
    """Yield the results of the sets and models of a suite, in the suite's order, then by run."""
    path = runs_file(root, suite.name)
    found = {}
    for number, line in enumerate(_read_lines(path), 1):
        if isinstance(line, Result):
            found[line.key] = line
        elif damaged == "refused":
            raise ValueError(
                f"Expected a result in line {number} of {path}, but it cannot be read: delete that line and run the "
                f"suite again."
            )
    for dataset in suite.datasets:
        for model in suite.results:
            yield from (found[key] for key in sorted(found) if key[:2] == (dataset, model))


def read_fit(root: Path, task: Task, results: Iterable[str]) -> list[Result]:
    """Read the results of one finished task."""
    found = {line.key: line for line in _read_lines(runs_file(root, task.suite)) if isinstance(line, Result)}
    return [found[key] for key in keys_of(task, results)]


def write_results(root: Path, suite: str, results: Iterable[Result]) -> None:
    """Write the results of one fit together. If all are there already, they stay; else the new ones replace them."""
    new = {result.key: result for result in results}
    path = runs_file(root, suite)
    with _locked(path.parent):
        lines = _read_lines(path)
        kept = {line.key: line for line in lines if isinstance(line, Result)}
        if kept.keys() >= new.keys():
            return
        # Unreadable lines stay, for the user to judge, and do not cost the user a fit of hours.
        unreadable = [line for line in lines if not isinstance(line, Result)]
        entries = [_to_json(result) for _, result in sorted((kept | new).items())]
        with written_whole(path) as beside:
            beside.write_text("".join(f"{line}\n" for line in [*entries, *unreadable]), encoding="utf-8")


def copy_results(root: Path, source: Task, task: Task, results: Iterable[str]) -> None:
    """Take the results of another suite's task, unchanged, as those of a task."""
    write_results(root, task.suite, read_fit(root, source, results))


def values_of(results: Iterable[Result], key: str) -> list[float]:
    """Return the values of one metric; results without it are left out."""
    return [float(result.metrics[key]) for result in results if result.metrics.get(key) is not None]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one worker at a time write to a folder, and remove what killed ones have left there."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("w") as lock:  # released by the system when the file is closed or the worker is killed
        fcntl.flock(lock, fcntl.LOCK_EX)
        for remains in folder.glob(f".{FILE}.*"):
            remains.unlink()
        yield


def _read_lines(path: Path) -> list[Result | str]:
    """Read the results in a file, and as text the lines that are none; a last line cut off is left out."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    lines: list[Result | str] = []
    for entry in text.split("\n"):
        try:
            lines.append(_from_json(entry))
        except (ValueError, TypeError, KeyError):
            lines.append(entry)
    # After the last line break stands nothing, or a line that was cut off.
    if isinstance(lines[-1], str) and lines.pop():
        warnings.warn(f"The last line of {path} was cut off: its run counts as not finished.", stacklevel=3)
    return lines


def _from_json(line: str) -> Result:
    entry = json.loads(line)
    documents = (entry["metrics"], entry["config"], entry["provenance"])
    return Result(entry["dataset"], entry["model"], entry["run"], *map(dict, documents))


def _to_json(result: Result) -> str:
    return json.dumps(_plain(vars(result)), separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    """Convert a value to what JSON can hold: numbers that are not finite become null, other types their repr."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return repr(value)
