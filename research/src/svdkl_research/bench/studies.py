"""The studies, as data: each is a list of tasks to measure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from svdkl_research.bench.setting import Setting
from svdkl_research.bench.systems import SYSTEMS

RATIO_AT_MOST, RATIO_AT_LEAST, SECONDS_MORE_AT_MOST = "ratio at most", "ratio at least", "seconds more at most"
PROFILE, SCALING = "profile", "scaling"


@dataclass(frozen=True)
class Limit:
    """A limit on a median: "ratio at most", "ratio at least" or "seconds more at most", each against the base."""

    kind: str
    value: float

    def holds(self, summary: Mapping[str, float]) -> bool:
        """Tell whether a row of :func:`~svdkl_research.bench.timing.ratios` is within the limit."""
        if self.kind == RATIO_AT_MOST:
            return summary["ratio"] <= self.value
        if self.kind == RATIO_AT_LEAST:
            return summary["ratio"] >= self.value
        return summary["more"] <= self.value

    def __str__(self) -> str:
        return f"{self.kind} {self.value:g}"


@dataclass(frozen=True)
class Task:
    """One system at one size, and the base system that it takes turns with in the same worker.

    Attributes
    ----------
    base
        The system to compare with. If it is the system itself, this one runs alone.
    repeats
        Number of rounds; fewer are measured if the time limit ends them.
    """

    study: str
    system: str
    base: str
    setting: Setting
    repeats: int
    limit: Limit | None = None

    @property
    def systems(self) -> tuple[str, ...]:
        """The systems that run, in the order of a round."""
        return tuple(dict.fromkeys((self.base, self.system)))

    def document(self) -> dict[str, Any]:
        """Return the task as JSON holds it, without its limit, which changes no measurement."""
        return {**asdict(self), "setting": self.setting._asdict(), "limit": None}

    def __str__(self) -> str:
        size = "" if self.study == "import" else f", {self.setting}"
        return f"{self.study}: {SYSTEMS[self.system].title}{size}"


def _step(axis: int, at_most: float, dims: int = 1) -> Task:
    setting = Setting(dims=dims, axis=axis)
    return Task("step", "svdkl", "network", setting, 15, Limit(RATIO_AT_MOST, at_most))


def _head(rows: int, gps: int, axis: int) -> list[Task]:
    setting = Setting(rows, gps, axis=axis)
    return [
        Task("head", "svdkl_head", "tanh", setting, 31, Limit(RATIO_AT_MOST, 3.0)),
        Task("head", "gpytorch_head", "svdkl_head", setting, 5, Limit(RATIO_AT_LEAST, 50.0)),
    ]


# The paper's Figure 2 c and d end at m = 2,000.
_MANY = (70, 100, 200, 400, 800, 1200, 2000)
_MORE = (5000, 10_000, 20_000, 50_000, 100_000)
_SIZES = {
    "svdkl": (*_MANY, *_MORE),
    "svdkl_cholesky": (70, 400, 800, 1200, 2000),  # below 256 points "svdkl" has a dense S already
    **dict.fromkeys(("gpytorch", "klsp_gp", "mc_gp"), _MANY),
}

STUDIES: dict[str, list[Task]] = {
    "step": [_step(70, 1.02), _step(2000, 1.05), _step(10_000, 1.10), _step(100, 1.10, 2), _step(46, 1.5, 3)],
    SCALING: [
        Task(SCALING, "network", "network", Setting(), 5),
        *(Task(SCALING, name, "network", Setting(axis=m), 5) for name, sizes in _SIZES.items() for m in sizes),
    ],
    "head": [*_head(5000, 256, 64), *_head(50_000, 2, 70)],
    "import": [
        Task("import", name, "import_torch", Setting(), 11, Limit(SECONDS_MORE_AT_MOST, 0.3))
        for name in ("import_svdkl", "import_model")
    ],
    PROFILE: [
        Task(PROFILE, "svdkl", "svdkl", Setting(axis=70), 3),
        Task(PROFILE, "svdkl", "svdkl", Setting(axis=2000), 3),
        Task(PROFILE, "svdkl_head", "svdkl_head", Setting(5000, 256, axis=64), 3),
    ],
}

_QUICK_ROWS, _QUICK_REPEATS = 1000, 3
_QUICK_SIZES = {"step": (70,), SCALING: (70, 200), "head": (70,), "import": (70,), PROFILE: (70,)}


def choose(
    studies: Sequence[str], quick: bool = False, rows: int | None = None, repeats: int | None = None, only: str = ""
) -> list[Task]:
    """Choose the tasks of some studies, at other sizes if asked for.

    A limit holds for the size of its study, so tasks of other sizes have none.

    Parameters
    ----------
    quick
        Whether to take few rows, few rounds and small lattices.
    rows, repeats
        Rows of a minibatch and number of rounds; None for the numbers of the studies.
    only
        The systems to measure, such as ``system=svdkl,system=klsp_gp``; empty for all.
    """
    tasks = [task for study in studies for task in STUDIES[study]]
    if quick:
        tasks = [replace(task, limit=None) for task in tasks if task.setting.axis in _QUICK_SIZES[task.study]]
        rows, repeats = rows or _QUICK_ROWS, repeats or _QUICK_REPEATS
    tasks = [_resized(task, rows, repeats) for task in tasks]
    wanted = _parse_only(only)
    chosen = [task for task in tasks if not wanted or task.system in wanted]
    if not chosen:
        names = ", ".join(dict.fromkeys(task.system for task in tasks))
        raise ValueError(f"Expected --only to name a system of these studies ({names}), got {only!r}.")
    return chosen


def _resized(task: Task, rows: int | None, repeats: int | None) -> Task:
    task = task if repeats is None else replace(task, repeats=repeats)
    if rows in (None, task.setting.rows) or task.study == "import":
        return task
    return replace(task, setting=task.setting._replace(rows=rows), limit=None)


def _parse_only(text: str) -> set[str]:
    wanted = set()
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        if key != "system" or value not in SYSTEMS:
            raise ValueError(f"Expected --only as system=NAME with a name out of {', '.join(SYSTEMS)}, got {part!r}.")
        wanted.add(value)
    return wanted
