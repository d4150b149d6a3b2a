"""How long the rest of a suite will take, from the tasks that are done."""

from dataclasses import dataclass, field
from statistics import mean

from svdkl.experiments.suites import Task


@dataclass
class Estimate:
    """Seconds of finished tasks, and from the most similar of them, those of others."""

    seconds: dict[Task, float] = field(default_factory=dict)

    def of(self, task: Task) -> float | None:
        """Mean over tasks of the same set and model, else of the same set, else of all; None if there are none."""
        alike = [
            [s for t, s in self.seconds.items() if (t.dataset, t.model) == (task.dataset, task.model)],
            [s for t, s in self.seconds.items() if t.dataset == task.dataset],
            list(self.seconds.values()),
        ]
        return next((mean(group) for group in alike if group), None)

    def left(self, tasks: list[Task]) -> str:
        """The rest in words."""
        if not tasks:
            return "nothing left"
        parts = [self.of(task) for task in tasks]
        known = [part for part in parts if part is not None]
        return f"about {duration(sum(known))} left" if len(known) == len(parts) else "rest not known yet"


def duration(seconds: float) -> str:
    """A time in the two largest units that matter."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
