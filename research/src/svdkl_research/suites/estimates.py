"""Time and memory of tasks to run, from finished runs of the same set, model and share."""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import mean

from svdkl_research.rivals import FORKS
from svdkl_research.suites.results import Result
from svdkl_research.suites.suite import Task

SECONDS_TO_START = 10.0  # roughly what a worker takes to load its libraries and its data


@dataclass(frozen=True)
class TaskCost:
    """Time and memory of a whole task.

    Attributes
    ----------
    memory
        Most bytes held; None where no run measured it.
    shared
        Seconds of the plain network's epochs, which the task does not repeat where a fit of that network left them.
    """

    seconds: float
    memory: float | None = None
    shared: float = 0.0


@dataclass
class Estimate:
    """Costs of finished tasks, and from them the costs of tasks to run.

    Attributes
    ----------
    done
        What each finished task took, or would have taken without the epochs of another.
    handed
        The tasks to run that go on from the plain network's epochs.
    """

    done: dict[Task, TaskCost] = field(default_factory=dict)
    handed: frozenset[Task] = frozenset()

    def cost_of(self, task: Task) -> TaskCost | None:
        """The mean over finished runs of other folds and seeds; None if there is none."""
        alike = [cost for other, cost in self.done.items() if _alike(other, task)]
        if not alike:
            return None
        memory = max((cost.memory for cost in alike if cost.memory is not None), default=None)
        seconds, shared = mean(cost.seconds for cost in alike), mean(cost.shared for cost in alike)
        return TaskCost(seconds - shared if task in self.handed else seconds, memory, shared)

    def time_of(self, task: Task) -> str:
        """The time of one task in words."""
        cost = self.cost_of(task)
        return "time unknown" if cost is None else f"about {duration(cost.seconds)}"

    def left(self, tasks: Iterable[Task]) -> str:
        """The time that is left in words."""
        costs = [self.cost_of(task) for task in tasks]
        known = [cost.seconds for cost in costs if cost is not None]
        parts = [f"about {duration(sum(known))}"] if known else []
        if len(known) < len(costs):
            parts.append(f"{counted(len(costs) - len(known), 'task')} of unknown time")
        return f"{' and '.join(parts) or 'nothing'} left"

    def sentence(self, tasks: Iterable[Task]) -> str:
        """Time and memory of tasks to run, and from how many finished runs they are known."""
        costs = [self.cost_of(task) for task in tasks]
        known = [cost for cost in costs if cost is not None]
        if not known:
            return "How long this takes is unknown: no run like these is finished."
        memory = max((cost.memory for cost in known if cost.memory is not None), default=None)
        upto = "" if memory is None else f" and up to {memory / 1e9:.1f} GB of memory"
        rest = len(costs) - len(known)
        more = f", without {counted(rest, 'task')} of unknown time" if rest else ""
        time = duration(sum(cost.seconds for cost in known))
        return f"This takes about {time}{upto}, judging by {counted(len(self.done), 'finished run')}{more}."


def finished_costs(results: Iterable[Result], suite: str) -> dict[Task, TaskCost]:
    """The cost of each finished task, over all results of its fit; results that do not say it are passed over."""
    fits: dict[Task, list[tuple[float, float, float | None]]] = defaultdict(list)
    shared: dict[Task, float] = {}
    for result in results:
        config, metrics = result.config, result.metrics
        with suppress(KeyError):
            task = Task(suite, result.dataset, config["trained_as"], config["fold"], config["seed"], result.share)
            # A model that is shown images from elsewhere predicts those too, and the test images once more.
            passes = 2 + metrics["n_elsewhere"] / metrics["n_test"] if "n_elsewhere" in metrics else 1
            times = metrics["train_seconds"], passes * metrics["predict_seconds"]
            fits[task].append((*times, metrics.get("peak_memory")))
            stages = config.get("findings", {}).get("stages", {})
            shared[task] = stages["network"]["seconds"] if task.model in FORKS and "network" in stages else 0.0
    costs = {}
    for task, parts in fits.items():
        training, predicting, memories = zip(*parts)
        network = min(training)  # the training time of every other result of the fit includes it
        seconds = network + sum(own - network for own in training) + sum(predicting)
        known = [float(memory) for memory in memories if memory is not None]
        costs[task] = TaskCost(SECONDS_TO_START + seconds, max(known, default=None), shared[task])
    return costs


def counted(number: int, thing: str) -> str:
    """A number of things in words."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def duration(seconds: float) -> str:
    """A time in the two largest units that matter."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _alike(one: Task, other: Task) -> bool:
    return (one.dataset, one.model, one.share) == (other.dataset, other.model, other.share)
