"""A suite task by task, each in a process of its own; what is finished is not done again."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from svdkl.experiments.progress import Estimate, duration
from svdkl.experiments.results import folder_of, is_finished, open_scratch, read_results
from svdkl.experiments.suites import Suite, Task

GRACE = 10.0  # seconds that an interrupted task has to end by itself
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Place:
    """Where a suite reads and writes, and how it runs.

    Attributes
    ----------
    scratch
        For what is too large to keep: predictions, histories, logs.
    threads
        Of each task; None leaves that to the libraries.
    """

    results: Path = Path("results")
    scratch: Path = Path(".scratch")
    data_dir: Path | None = None
    download: bool = False
    threads: int | None = None


def run_suite(suite: Suite, tasks: Sequence[Task], place: Place, say: Callable[[str], None] = print) -> list[Task]:
    """Run the tasks that are not finished; the ones that failed come back.

    A failure does not stop the others. An interrupt stops the running task, which then leaves nothing behind.
    """
    todo = [task for task in tasks if not is_finished(place.results, task, suite.results_of(task.model))]
    say(f"{suite.name}: {len(tasks)} tasks, {len(tasks) - len(todo)} finished before, {len(todo)} to run.")
    estimate = Estimate(_seconds_before(suite, place))
    failed: list[Task] = []
    for number, task in enumerate(todo, 1):
        say(f"[{number}/{len(todo)}] {task} ({estimate.left(todo[number - 1 :])})")
        start = time.monotonic()
        reason = run_in_process(task, place)
        if reason is None:
            estimate.seconds[task] = time.monotonic() - start
            say(f"[{number}/{len(todo)}] {task}: done in {duration(estimate.seconds[task])}")
        else:
            failed.append(task)
            say(f"[{number}/{len(todo)}] {task}: failed, {reason}")
    return failed


def task_command(task: Task, place: Place) -> list[str]:
    """The command that does one task."""
    command = [sys.executable, "-m", "svdkl.experiments", "--debug", *task.arguments]
    command += ["--results", str(place.results), "--scratch", str(place.scratch)]
    if place.data_dir is not None:
        command += ["--data-dir", str(place.data_dir)]
    if place.download:
        command += ["--download"]
    if place.threads is not None:
        command += ["--threads", str(place.threads)]
    return command


def run_in_process(task: Task, place: Place) -> str | None:
    """Do a task in a process of its own; None if all went well, else the reason in a line."""
    log = folder_of(place.scratch, task, task.model) / "log.txt"
    open_scratch(place.scratch)
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    if place.threads is not None:
        environment.update(dict.fromkeys(THREAD_VARIABLES, str(place.threads)))
    with log.open("w") as output:
        process = subprocess.Popen(task_command(task, place), stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            code = process.wait()
        except BaseException:
            _stop(process)
            raise
    if code == 0:
        return None
    lines = [line for line in log.read_text().splitlines() if line.strip()]
    # The log has the whole story; its last line is the error's own sentence.
    reason = re.sub(r"^[\w.]+: (?=Expected )", "", lines[-1].strip()) if lines else f"it ended with code {code}"
    return f"{reason} (log: {log})"


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _seconds_before(suite: Suite, place: Place) -> dict[Task, float]:
    """What earlier runs took, to estimate from."""
    seconds = {}
    for result in read_results(place.results, suite):
        config, metrics = result.config, result.metrics
        task = Task(suite.name, result.dataset, config["trained_as"], config["fold"], config["seed"])
        seconds[task] = metrics["train_seconds"] + metrics["predict_seconds"]
    return seconds
