"""The plan of a suite: finished tasks, tasks to run, and sets whose data is missing."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from svdkl_research.datasets import ELSEWHERE, SOURCES, missing_data
from svdkl_research.rivals import FORKS, PLAIN_NETWORKS
from svdkl_research.suites.all_suites import SUITES
from svdkl_research.suites.estimates import Estimate, TaskCost, counted, finished_costs
from svdkl_research.suites.results import Key, finished_keys, keys_of, read_results
from svdkl_research.suites.scratch import fork_of
from svdkl_research.suites.suite import Suite, Task


@dataclass(frozen=True)
class Place:
    """The folders of a suite, and how its tasks run.

    Attributes
    ----------
    scratch
        Folder for predictions, histories, logs and checkpoints, which are too large to keep.
    threads
        Number of threads of each task; None leaves it to the libraries.
    """

    results: Path = Path("results")
    scratch: Path = Path(".scratch")
    data_dir: Path | None = None
    download: bool = False
    threads: int | None = None


@dataclass(frozen=True)
class Plan:
    """The unfinished tasks of a suite, with what is known of their cost and their data.

    Attributes
    ----------
    tasks
        Tasks without results.
    shared
        Tasks that take the results of a finished fit in another suite, each with that suite's task.
    finished
        Number of tasks with results.
    left_out
        Sets whose data is missing, with the reason; their tasks are not run.
    fetched
        Sets whose data is missing but would be downloaded.
    unseen
        Sets whose out-of-distribution images are missing, with the reason.
    """

    suite: Suite
    tasks: list[Task]
    shared: dict[Task, Task]
    finished: int
    estimate: Estimate
    left_out: Mapping[str, str] = field(default_factory=dict)
    fetched: tuple[str, ...] = ()
    unseen: Mapping[str, str] = field(default_factory=dict)

    @property
    def todo(self) -> list[Task]:
        """The tasks to run."""
        return [task for task in self.tasks if task.dataset not in self.left_out]

    def sentences(self) -> list[str]:
        """Say what is left out, how many tasks there are to run, and what they take."""
        todo, shared = self.todo, len(self.shared)
        sentences = [
            f"{', '.join(names)}: left out, {'its' if len(names) == 1 else 'their'} data is missing. {reason}"
            for names, reason in _by_reason(self.left_out)
        ]
        if self.fetched:
            sentences.append(f"{', '.join(self.fetched)}: to be downloaded from OpenML.")
        for names, reason in _by_reason(self.unseen):
            sentences.append(f"{', '.join(names)}: models will not be shown images from elsewhere. {reason}")
        elsewhere = f" {shared} finished in other suites," if shared else ""
        without = f" {len(self.tasks) - len(todo)} without data," if self.left_out else ""
        count = f"{self.suite.name}: {counted(len(self.tasks) + shared + self.finished, 'task')}"
        sentences.append(f"{count}, {self.finished} finished before,{elsewhere}{without} {len(todo)} to run.")
        return [*sentences, self.estimate.sentence(todo)] if todo else sentences


def plan_suite(suite: Suite, tasks: Sequence[Task], place: Place) -> Plan:
    """Compare a suite's tasks with the results that are there."""

    def among(finished: set[Key], task: Task) -> bool:
        return finished.issuperset(keys_of(task, suite.results_of(task.model, task.share)))

    finished = finished_keys(place.results, suite.name)
    missing = [task for task in tasks if not among(finished, task)]
    # A fit to all rows is the same in every suite; fits of quick suites are not.
    others = [other for other in SUITES.values() if other != suite] if suite.max_rows is None else []
    shared: dict[Task, Task] = {}
    for other in others:
        elsewhere = finished_keys(place.results, other.name)
        shared |= {task: replace(task, suite=other.name) for task in missing if among(elsewhere, task)}
    todo = [task for task in missing if task not in shared]
    done: dict[Task, TaskCost] = {}
    for other in others:
        # Damaged results of another suite need not stop this one; that suite's page reports them.
        done |= finished_costs(read_results(place.results, other, damaged="skipped"), other.name)
    done |= finished_costs(read_results(place.results, suite), suite.name)
    mine = {(task.dataset, task.model) for task in tasks}
    done = {task: cost for task, cost in done.items() if (task.dataset, task.model) in mine}
    handed = {task for task in todo if suite.kind == "classification" and _goes_on(task, todo, place)}
    return Plan(suite, todo, shared, len(tasks) - len(missing), Estimate(done, frozenset(handed)))


def _goes_on(task: Task, todo: Sequence[Task], place: Place) -> bool:
    """Tell whether a fit goes on from epochs that a plain network's fit has left or will leave."""
    begun = fork_of(place.scratch, task).exists()
    return begun or (task.model in FORKS and any(replace(task, model=model) in todo for model in PLAIN_NETWORKS))


def look_for_data(plan: Plan, place: Place, dry: bool = False) -> Plan:
    """Return the plan without the sets whose data is missing, and raise an error if nothing is left.

    With ``place.download``, missing sets are fetched here, unless the run is ``dry``.
    """
    names = dict.fromkeys(task.dataset for task in plan.tasks)
    missing = _missing(names, replace(place, download=place.download and not dry))
    fetched = tuple(name for name in missing if dry and place.download and SOURCES[name].at_openml)
    left_out = {name: reason for name, reason in missing.items() if name not in fetched}
    if left_out and not (plan.finished or plan.shared) and set(left_out) == set(names):
        (_, reason), *rest = _by_reason(left_out)
        more = ", ".join(name for group, _ in rest for name in group)
        raise FileNotFoundError(reason + (f" Missing, too: {more}." if more else ""))
    others = {name: ELSEWHERE[name] for name in names if name in ELSEWHERE and name not in left_out}
    reasons = _missing(others.values(), place)
    unseen = {name: reasons[other] for name, other in others.items() if other in reasons}
    return replace(plan, left_out=left_out, fetched=fetched, unseen=unseen)


def _missing(names: Iterable[str], place: Place) -> dict[str, str]:
    found = {name: missing_data(name, place.data_dir, place.download) for name in names}
    return {name: reason for name, reason in found.items() if reason}


def _by_reason(reasons: Mapping[str, str]) -> list[tuple[list[str], str]]:
    """Group sets by the reason why they are missing, since some share a file."""
    names: dict[str, list[str]] = defaultdict(list)
    for name, reason in reasons.items():
        names[reason].append(name)
    return [(group, reason) for reason, group in names.items()]
