"""A suite task by task, each in a process of its own; what is finished, in whichever suite, is not done again."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from svdkl.experiments.datasets import missing_data
from svdkl.experiments.progress import Cost, Estimate, duration, finished_costs
from svdkl.experiments.results import (
    checkpoint_of,
    copy_result,
    folder_of,
    is_finished,
    is_whole,
    open_scratch,
    read_results,
)
from svdkl.experiments.suite import Suite, Task
from svdkl.experiments.suites import SUITES

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


@dataclass(frozen=True)
class Plan:
    """The tasks of a suite that are not finished, and what is known of their cost.

    Attributes
    ----------
    tasks
        Without results.
    shared
        The same fits of other suites, which are finished, by the task that takes their results.
    finished
        How many tasks have results.
    left_out
        Sets whose data is missing, with the reason; their tasks are not run.
    """

    suite: Suite
    tasks: list[Task]
    shared: dict[Task, Task]
    finished: int
    estimate: Estimate
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def todo(self) -> list[Task]:
        """The tasks to run."""
        return [task for task in self.tasks if task.dataset not in self.left_out]

    def sentences(self) -> list[str]:
        """What is left out, how much there is to do, and what it takes."""
        todo, shared = self.todo, len(self.shared)
        elsewhere = f" {shared} finished in other suites," if shared else ""
        without = f" {len(self.tasks) - len(todo)} without data," if self.left_out else ""
        count = f"{self.suite.name}: {len(self.tasks) + shared + self.finished} tasks"
        counts = f"{count}, {self.finished} finished before,{elsewhere}{without} {len(todo)} to run."
        missing = [f"{name}: left out, its data is missing. {reason}" for name, reason in self.left_out.items()]
        return [*missing, counts, *([self.estimate.sentence(todo)] if todo else [])]


def plan_suite(suite: Suite, tasks: Sequence[Task], place: Place) -> Plan:
    """Look at the results that are there."""
    missing = [task for task in tasks if not is_finished(place.results, task, suite.results_of(task.model))]
    # Fits to all rows are alike in all suites; quick ones are like no others.
    others = [other for other in SUITES.values() if other != suite] if suite.max_rows is None else []
    shared: dict[Task, Task] = {}
    for task, other in product(missing, others):
        same = replace(task, suite=other.name)
        if all(is_whole(folder_of(place.results, same, result)) for result in suite.results_of(task.model)):
            shared[task] = same
    todo = [task for task in missing if task not in shared]
    done: dict[Task, Cost] = {}
    for other in others:
        # Whoever wants that suite's page will be told of what is damaged there.
        done |= finished_costs(read_results(place.results, other, damaged="skipped"), other.name)
    done |= finished_costs(read_results(place.results, suite), suite.name)
    mine = {(task.dataset, task.model) for task in tasks}
    done = {task: cost for task, cost in done.items() if (task.dataset, task.model) in mine}
    return Plan(suite, todo, shared, len(tasks) - len(missing), Estimate(suite, done))


def leave_out_missing(plan: Plan, place: Place) -> Plan:
    """The plan, with sets left out whose data is missing. With ``download``, what can be fetched is fetched here."""
    names = dict.fromkeys(task.dataset for task in plan.tasks)
    missing = {name: reason for name in names if (reason := missing_data(name, place.data_dir, place.download))}
    return replace(plan, left_out=missing)


def _refuse_if_nothing_is_left(plan: Plan) -> None:
    if plan.left_out and not (plan.todo or plan.finished or plan.shared):
        first, *others = plan.left_out
        raise FileNotFoundError(plan.left_out[first] + (f" Missing, too: {', '.join(others)}." if others else ""))


def run_suite(suite: Suite, tasks: Sequence[Task], place: Place, say: Callable[[str], None] = print) -> list[Task]:
    """Run the tasks that are not finished; the ones that failed come back, and those whose data is missing.

    A fit that another suite has is not repeated: its results are copied as they are, origin and all. A failure does not
    stop the others. An interrupt stops the running task, which leaves nothing but its checkpoint.
    """
    plan = leave_out_missing(plan_suite(suite, tasks, place), place)
    _refuse_if_nothing_is_left(plan)
    for sentence in plan.sentences():
        say(sentence)
    for task, same in plan.shared.items():
        for result in suite.results_of(task.model):
            copy_result(folder_of(place.results, same, result), folder_of(place.results, task, result))
    todo, estimate = plan.todo, plan.estimate
    failed = [task for task in plan.tasks if task.dataset in plan.left_out]
    for number, task in enumerate(todo, 1):
        resumed = "goes on from its checkpoint, " if checkpoint_of(place.scratch, task).parent.exists() else ""
        say(f"[{number}/{len(todo)}] {task} ({resumed}{estimate.left(todo[number - 1 :])})")
        start = time.monotonic()
        reason = run_in_process(task, place)
        if reason is None:
            seconds = time.monotonic() - start
            if not resumed:
                estimate.done[task] = Cost(seconds)
            say(f"[{number}/{len(todo)}] {task}: done in {duration(seconds)}")
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
