"""What the rest of a suite will take: from the tasks that are done, and by a rule where none is like it."""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import NamedTuple

from svdkl_research.datasets.adult import ADULT
from svdkl_research.datasets.connect4 import CONNECT4
from svdkl_research.datasets.covertype import COVERTYPE
from svdkl_research.datasets.diabetes import DIABETES
from svdkl_research.datasets.flights import ROWS as FLIGHTS
from svdkl_research.rivals import FORKS
from svdkl_research.suites.results import Result
from svdkl_research.suites.suite import Suite, Task


class Images(NamedTuple):
    """What a set of images costs by.

    Attributes
    ----------
    rows
        To train with.
    size
        Bytes of an image.
    millions
        Of multiplications for its features.
    weights
        Of the network's last layer.
    scored
        Images that are predicted: the test images, and again with those from elsewhere.
    """

    rows: int
    size: int
    epochs: int
    millions: float
    weights: int
    scored: int


IMAGES = {
    "mnist": Images(60_000, 28 * 28, 12, 2.3, 10 * 501, 30_000),
    "mnist_binary": Images(60_000, 28 * 28, 12, 2.3, 2 * 501, 30_000),
    "cifar10": Images(50_000, 3 * 32 * 32, 16, 12.0, 10 * 65, 30_000),
    "cifar10_resnet": Images(50_000, 3 * 32 * 32, 8, 41.0, 10 * 65, 30_000),
    "svhn": Images(73_257, 3 * 32 * 32, 16, 12.0, 10 * 65, 26_032),
    "tiny_imagenet20": Images(10_000, 3 * 64 * 64, 16, 93.0, 20 * 257, 1_000),
}
ROWS = {
    **{known.name: known.rows for known in (ADULT, CONNECT4, COVERTYPE, DIABETES)},
    "flights": FLIGHTS,
    "airline": 5_900_000,
    **{name: known.rows for name, known in IMAGES.items()},
}
ROWS_OF_OTHERS = 10_000

# How often a network goes through the rows before it is stopped, and how many rows it sees at most in all.
PASSES, FEWEST_PASSES, ROWS_IN_ALL = 25, 4, 8_000_000
SECONDS_A_ROW = {"lightgbm": 4e-5, "ensemble": 3e-4, "svdkl": 9e-5}
SECONDS_A_ROW |= {"svdkl_paper": 8e-5, "svdkl_paper_small_batches": 8e-5}
SECONDS_A_ROW_OF_OTHERS = 6e-5
SECONDS_A_ROW_OF_HEADS = 1e-5  # on features, in a third of the passes
SHARE_OF_NETWORK = 0.6  # of the time of a fit that begins with the plain network's epochs
# A step of training takes three times as many multiplications as features do, and a core does so many a second.
MULTIPLICATIONS_A_SECOND = 4e10
FITS = {"ensemble": 5}  # of the network on images
# An eigendecomposition of the last layer's weights, and products with all of them for each image, in double precision.
DOUBLE_MULTIPLICATIONS_A_SECOND, MULTIPLICATIONS_OF_EIGENVECTORS = 1.1e10, 4
# Budgets of those that end by the clock, and what one whose time does not go with passes takes at least.
BUDGETS = {"klsp_gp": 300.0, "svgp": 45.0, "mc_gp": 1200.0, "savi_gp": 300.0, "d_gplvm": 600.0}
SECONDS_AT_LEAST = {"svm": 300.0}
SECONDS_TO_START = 10.0  # a process, its libraries, its data
BYTES_TO_START, BYTES_A_ROW = 700e6, 1500
BYTES_OF_LAPLACE = 1e9  # features and eigenvectors in double precision
IMAGE_COPIES = 6  # as they are read and decoded, as one set, and split into parts


@dataclass(frozen=True)
class Cost:
    """What a task takes; memory is None where a run did not measure it.

    Attributes
    ----------
    shared
        Of its seconds those of the plain network's epochs, which it need not repeat where these are at hand.
    """

    seconds: float
    memory: float | None = None
    shared: float = 0.0


@dataclass
class Estimate:
    """Costs of finished tasks, and from them those of others of a suite.

    Attributes
    ----------
    done
        What the finished ones took, or would have taken without the epochs of another.
    handed
        Those to be run that go on from the plain network's epochs.
    """

    suite: Suite
    done: dict[Task, Cost] = field(default_factory=dict)
    handed: frozenset[Task] = frozenset()

    def of(self, task: Task) -> Cost:
        """As of runs that differ in fold and seed only; else by rule, with this machine's speed where it is known."""
        alike = [cost for other, cost in self.done.items() if _alike(other, task)]
        cost = cost_by_rule(task, self.suite, self._slowness())
        if alike:
            memories = [cost.memory for cost in alike if cost.memory is not None]
            seconds, shared = (mean(times) for times in zip(*((cost.seconds, cost.shared) for cost in alike)))
            cost = Cost(seconds, max(memories, default=cost.memory), shared)
        return replace(cost, seconds=cost.seconds - cost.shared) if task in self.handed else cost

    def _slowness(self) -> float:
        """Seconds of the finished tasks, as a multiple of what the rule gives; fixed budgets tell nothing."""
        fixed = {**BUDGETS, **SECONDS_AT_LEAST}
        told = {task: cost.seconds for task, cost in self.done.items() if task.model not in fixed}
        by_rule = sum(cost_by_rule(task, self.suite).seconds for task in told)
        return sum(told.values()) / by_rule if told else 1.0

    def left(self, tasks: Iterable[Task]) -> str:
        """The rest in words."""
        costs = [self.of(task) for task in tasks]
        return f"about {duration(sum(cost.seconds for cost in costs))} left" if costs else "nothing left"

    def sentence(self, tasks: Iterable[Task]) -> str:
        """Time and memory of tasks that are to be run, and what that rests on."""
        costs = [self.of(task) for task in tasks]
        memory = max((cost.memory or 0.0 for cost in costs), default=0.0)
        basis = f"judging by {counted(len(self.done), 'finished run')}" if self.done else "by rule of thumb"
        seconds = sum(cost.seconds for cost in costs)
        return f"This takes about {duration(seconds)} and up to {memory / 1e9:.1f} GB of memory, {basis}."


def cost_by_rule(task: Task, suite: Suite, slowness: float = 1.0) -> Cost:
    """Rows times what a row is known to cost on one core, roughly, and what a suite makes of a fit beside it."""
    rows, images = float(ROWS.get(task.dataset, ROWS_OF_OTHERS)), IMAGES.get(task.dataset)
    memory = BYTES_TO_START + rows * (BYTES_A_ROW if images is None else IMAGE_COPIES * images.size)
    if task.model in BUDGETS:
        return Cost(SECONDS_TO_START + BUDGETS[task.model], memory)
    rows = float(task.share) * min(rows, suite.max_rows or rows)
    passes = max(min(ROWS_IN_ALL / rows, PASSES), FEWEST_PASSES)
    training = rows * passes * SECONDS_A_ROW.get(task.model, SECONDS_A_ROW_OF_OTHERS)
    if "dnn_gp" in suite.results_of(task.model, task.share):
        training += rows * passes * SECONDS_A_ROW_OF_HEADS
    if images is not None:
        passes = min(images.epochs, suite.max_epochs or images.epochs) * FITS.get(task.model, 1)
        training = rows * passes * 3e6 * images.millions / MULTIPLICATIONS_A_SECOND
        if "laplace" in suite.results_of(task.model, task.share):  # of tables it takes seconds
            products = (MULTIPLICATIONS_OF_EIGENVECTORS * images.weights + images.scored) * images.weights**2
            training += products / DOUBLE_MULTIPLICATIONS_A_SECOND
            memory += BYTES_OF_LAPLACE
    shared = SHARE_OF_NETWORK * training * slowness if task.model in FORKS else 0.0
    seconds = max((SECONDS_TO_START + training) * slowness, SECONDS_AT_LEAST.get(task.model, 0.0))
    return Cost(seconds, memory, shared)


def finished_costs(results: Iterable[Result], suite: str) -> dict[Task, Cost]:
    """What earlier runs took, all results of a fit together; an estimate can do without those that do not say it."""
    fits: dict[Task, list[tuple[float, float, float | None]]] = defaultdict(list)
    shared: dict[Task, float] = {}
    for result in results:
        config, metrics = result.config, result.metrics
        with suppress(KeyError):
            task = Task(suite, result.dataset, config["trained_as"], config["fold"], config["seed"], result.share)
            # Where there are images from elsewhere, those are predicted as well, and the test images once more.
            passes = 2 + metrics["n_elsewhere"] / metrics["n_test"] if "n_elsewhere" in metrics else 1
            times = metrics["train_seconds"], passes * metrics["predict_seconds"]
            fits[task].append((*times, metrics.get("peak_memory")))
            stages = config.get("findings", {}).get("stages", {})
            shared[task] = stages["network"]["seconds"] if task.model in FORKS and "network" in stages else 0.0
    costs = {}
    for task, parts in fits.items():
        training, predicting, memories = zip(*parts)
        network = min(training)  # which the times of what was made of it include
        seconds = network + sum(own - network for own in training) + sum(predicting)
        known = [float(memory) for memory in memories if memory is not None]
        costs[task] = Cost(SECONDS_TO_START + seconds, max(known, default=None), shared[task])
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
