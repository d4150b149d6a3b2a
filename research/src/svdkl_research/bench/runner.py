"""Run measurements one by one, each in a worker with limits on time and memory, and write each result at once."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from svdkl.errors import version_of
from svdkl.writing import written_whole
from svdkl_research.bench.child import MEASURED, OUT_OF_MEMORY, says_out_of_memory
from svdkl_research.bench.studies import SCALING, Task
from svdkl_research.bench.systems import SYSTEMS
from svdkl_research.suites.provenance import SOURCES, provenance
from svdkl_research.suites.runner import THREAD_VARIABLES

OUT_OF_TIME, NOT_INSTALLED, SKIPPED, FAILED = "out of time", "not installed", "skipped", "failed"
FINAL = (MEASURED, OUT_OF_MEMORY, OUT_OF_TIME)  # a task that ended so is not tried again
KILLED = -9  # exit code of a worker that the system has killed
SHARE_OF_MEMORY = 0.8  # of the machine's memory: the rest is left to the system and to other programs
MARGIN = 0.1  # share of the time limit that is left for the worker's start and its last round


@dataclass(frozen=True)
class Conditions:
    """The conditions under which tasks run.

    Attributes
    ----------
    seconds
        Time limit of a task.
    memory
        Bytes that a task may take beyond what the libraries hold.
    """

    threads: int
    seconds: float
    memory: int

    @classmethod
    def here(cls, threads: int | None, seconds: float, gigabytes: float | None) -> "Conditions":
        """Return the conditions on this machine; None stands for torch's threads and for 80 % of the memory."""
        memory = SHARE_OF_MEMORY * _installed_memory() if gigabytes is None else 1e9 * gigabytes
        return cls(threads or torch.get_num_threads(), seconds, int(memory))


@dataclass(frozen=True)
class Record:
    """A task and its outcome.

    Attributes
    ----------
    outcome
        Its "status"; if that is "measured", also the "seconds" of each system in all rounds, or the "operations" of a
        profile.
    """

    task: Task
    outcome: dict[str, Any]

    @property
    def status(self) -> str:
        """The outcome in a word or two, such as "measured"."""
        return str(self.outcome["status"])


def run_tasks(
    tasks: Sequence[Task], path: Path, conditions: Conditions, command: str, say: Callable[[str], None]
) -> list[Record]:
    """Measure the tasks that ``path`` does not hold yet for the same sources and conditions, and write them there."""
    origin = _origin(command, conditions)
    entries = _read(path)
    records: list[Record] = []
    for number, task in enumerate(tasks, 1):
        key = {"task": task.document(), "conditions": asdict(conditions)}
        known = next((entry for entry in entries if _is_of(entry, key)), None)
        if known is not None and _same_code(known["provenance"], origin) and known["outcome"]["status"] in FINAL:
            records.append(Record(task, known["outcome"]))
            continue
        say(f"[{number}/{len(tasks)}] {task}")
        outcome = _without_running(task, records) or run_in_worker(task, conditions)
        if outcome["status"] != MEASURED:
            say(f"[{number}/{len(tasks)}] {task}: {sentence(outcome)}")
        records.append(Record(task, outcome))
        entries = [entry for entry in entries if entry is not known]
        entries.append({**key, "outcome": outcome, "provenance": origin})
        _write(path, entries)
    return records


def run_in_worker(task: Task, conditions: Conditions) -> dict[str, Any]:
    """Measure a task in a worker that ends, one way or another, within the limits."""
    request = {
        "task": task.document(),
        "threads": conditions.threads,
        "seconds": (1 - MARGIN) * conditions.seconds,
        "memory": conditions.memory,
    }
    environment = {**os.environ, **dict.fromkeys(THREAD_VARIABLES, str(conditions.threads))}
    command = [sys.executable, "-m", "svdkl_research.bench.child", json.dumps(request)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=conditions.seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return {"status": OUT_OF_TIME}
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    # When memory runs out, the system may kill the worker, which then says nothing.
    if done.returncode == KILLED or says_out_of_memory(done.stderr):
        return {"status": OUT_OF_MEMORY}
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return {"status": FAILED, "reason": lines[-1].strip() if lines else f"it ended with code {done.returncode}"}


def sentence(outcome: dict[str, Any]) -> str:
    """Describe an outcome in words."""
    reason = outcome.get("reason")
    return f"{outcome['status']}: {reason}" if reason else str(outcome["status"])


def _without_running(task: Task, records: Sequence[Record]) -> dict[str, Any] | None:
    """Return the outcome of a task that need not be run, else None."""
    missing = [name for system in task.systems for name in SYSTEMS[system].missing()]
    if missing:
        return {"status": NOT_INSTALLED, "reason": "pip install 'svdkl-research[rivals]'"}
    if task.study != SCALING:
        return None
    for record in records:
        smaller = (record.task.study, record.task.system) == (task.study, task.system)
        if smaller and record.status in (OUT_OF_MEMORY, OUT_OF_TIME):
            return {"status": SKIPPED, "reason": f"{record.status} at m = {record.task.setting.m:,} already"}
    return None


def _installed_memory() -> float:
    """Return the machine's memory in bytes, or 8 GB where the system does not tell."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return 8e9


def _origin(command: str, conditions: Conditions) -> dict[str, Any]:
    found = provenance(0, command)
    found["machine"]["threads"] = conditions.threads
    found["versions"]["pyro-ppl"] = version_of("pyro-ppl")
    return {**found, "sources": _sources()}


def _sources() -> str:
    """Return a hash of all modules of svdkl and svdkl_research: it also changes with what is not committed."""
    found = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted(folder.rglob("*.py")):
            found.update(f"{path.relative_to(folder.parent)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def _same_code(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one.get(name) == other[name] for name in ("sources", "versions"))


def _is_of(entry: dict[str, Any], key: dict[str, Any]) -> bool:
    return all(entry.get(name) == value for name, value in key.items())


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    try:
        return list(json.loads(path.read_text())["measurements"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"Expected measurements in {path}, but it cannot be read: delete it.") from error


def _write(path: Path, entries: list[dict[str, Any]]) -> None:
    with written_whole(path) as beside:
        beside.write_text(json.dumps({"measurements": entries}, indent=1) + "\n")
