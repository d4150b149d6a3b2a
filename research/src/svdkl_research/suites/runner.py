"""A suite task by task, each in a process of its own; what is finished, in whichever suite, is not done again."""

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

GRACE = 10.0  # seconds that an interrupted task has to end by itself
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def run_suite(suite: Suite, tasks: Sequence[Task], place: Place, say: Callable[[str], None] = print) -> list[Task]:
    """Run the tasks that are not finished; the ones that failed come back, and those whose data is missing.

    A fit that another suite has is not repeated: its results are copied as they are, origin and all. A failure does not
    stop the others. An interrupt stops the running task, which leaves nothing but its checkpoint.
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
        reason = run_in_process(task, place)
        if reason is None:
            results = read_fit(place.results, task, suite.results_of(task.model, task.share))
            estimate.done |= finished_costs(results, suite.name)
            say(f"[{number}/{len(todo)}] {task}: done in {duration(time.monotonic() - start)}")
        else:
            failed.append(task)
            say(f"[{number}/{len(todo)}] {task}: failed, {reason}")
    return failed


def task_command(task: Task, place: Place) -> list[str]:
    """The command that does one task."""
    command = [sys.executable, "-m", "svdkl_research", "--debug", *task.arguments]
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
    log = scratch_of(place.scratch, task, task.model) / "log.txt"
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
