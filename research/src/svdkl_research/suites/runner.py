"""Run a suite task by task, each in a worker of its own, without those that are finished in any suite."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from svdkl_research.suites.estimates import duration, finished_costs
from svdkl_research.suites.plan import Place, look_for_data, plan_suite
from svdkl_research.suites.results import copy_results, read_fit
from svdkl_research.suites.scratch import checkpoint_of, open_scratch, refuse_unwritable, scratch_of
from svdkl_research.suites.suite import Suite, Task

GRACE = 10.0  # seconds that an interrupted worker has to end by itself
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def run_suite(suite: Suite, tasks: Sequence[Task], place: Place, say: Callable[[str], None] = print) -> list[Task]:
    """Run the unfinished tasks, and return the tasks that failed or lack their data.

    A fit that another suite has is not repeated: its results are copied unchanged. A failed task does not stop the
    others. An interrupt stops the running task, which leaves nothing but its checkpoint.
    """
    for folder, option in ((place.results, "--results"), (place.scratch, "--scratch")):
        refuse_unwritable(folder / suite.name, option)
    plan = look_for_data(plan_suite(suite, tasks, place), place)
    for sentence in plan.sentences():
        say(sentence)
    for task, same in plan.shared.items():
        copy_results(place.results, same, task, suite.results_of(task.model, task.share))
    todo, estimate = plan.todo, plan.estimate
    failed = [task for task in plan.tasks if task.dataset in plan.left_out]
    for number, task in enumerate(todo, 1):
        resumed = "goes on from its checkpoint, " if checkpoint_of(place.scratch, task).parent.exists() else ""
        say(f"[{number}/{len(todo)}] {task} ({resumed}{estimate.left(todo[number - 1 :])})")
        start = time.monotonic()
        reason = run_in_worker(task, place)
        if reason is None:
            results = read_fit(place.results, task, suite.results_of(task.model, task.share))
            estimate.done |= finished_costs(results, suite.name)
            say(f"[{number}/{len(todo)}] {task}: done in {duration(time.monotonic() - start)}")
        else:
            failed.append(task)
            say(f"[{number}/{len(todo)}] {task}: failed, {reason}")
    return failed


def task_command(task: Task, place: Place) -> list[str]:
    """Return the command line that runs one task."""
    command = [sys.executable, "-m", "svdkl_research", "--debug", *task.arguments]
    command += ["--results", str(place.results), "--scratch", str(place.scratch)]
    if place.data_dir is not None:
        command += ["--data-dir", str(place.data_dir)]
    if place.download:
        command += ["--download"]
    if place.threads is not None:
        command += ["--threads", str(place.threads)]
    return command


def run_in_worker(task: Task, place: Place) -> str | None:
    """Run a task in a worker of its own; return None if it succeeded, else the reason in a line."""
    log = scratch_of(place.scratch, task, task.model) / "log.txt"
    open_scratch(place.scratch)
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    if place.threads is not None:
        environment.update(dict.fromkeys(THREAD_VARIABLES, str(place.threads)))
    with log.open("w") as output:
        worker = subprocess.Popen(task_command(task, place), stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            code = worker.wait()
        except BaseException:
            _stop(worker)
            raise
    if code == 0:
        return None
    lines = [line for line in log.read_text().splitlines() if line.strip()]
    # The last line of the log is the error's message; the traceback above it stays in the log.
    reason = re.sub(r"^[\w.]+: (?=Expected )", "", lines[-1].strip()) if lines else f"it ended with code {code}"
    return f"{reason} (log: {log})"


def _stop(worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    try:
        worker.wait(GRACE)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
