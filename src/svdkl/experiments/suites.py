"""Suites as data: which sets, models, folds and seeds belong together, and the tasks that they come to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from svdkl.experiments.baselines import MODELS, model_of
from svdkl.experiments.datasets.dataset import Task as Kind


@dataclass(frozen=True)
class Task:
    """One fit: the smallest piece of work, done by a process of its own."""

    suite: str
    dataset: str
    model: str
    fold: int
    seed: int

    @property
    def run(self) -> str:
        """Name of the run's folder."""
        return f"fold{self.fold}-seed{self.seed}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """What names the task on the command line, without folders, which differ from machine to machine."""
        return ("run-task", self.suite, self.dataset, self.model, "--fold", f"{self.fold}", "--seed", f"{self.seed}")

    def __str__(self) -> str:
        return f"{self.dataset} {self.model} {self.run}"


@dataclass(frozen=True)
class Suite:
    """Every model on every set, fold and seed."""

    name: str
    title: str
    kind: Kind
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    folds: tuple[int, ...]
    seeds: tuple[int, ...]

    def tasks(self) -> Iterator[Task]:
        """All fits, one data set after the other, and on it one run of all models after the other."""
        for dataset in self.datasets:
            for fold in self.folds:
                for seed in self.seeds:
                    for model in self.models:
                        yield Task(self.name, dataset, model, fold, seed)

    def results_of(self, model: str) -> tuple[str, ...]:
        """Names of the results that one fit of a model gives."""
        return MODELS[model].results(model, self.kind)

    @property
    def results(self) -> tuple[str, ...]:
        """Names of all results, in the order of the tables."""
        return tuple(result for model in self.models for result in self.results_of(model))


SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite(
            "tabular",
            "Classes from tables",
            "classification",
            ("adult", "connect4", "covertype", "diabetes", "flights"),
            ("dnn", "dnn_gp", "svdkl_paper", "svdkl", "lightgbm"),
            folds=(0,),
            seeds=(0, 1, 2),
        ),
        Suite(
            "regression",
            "Real targets from tables",
            "regression",
            ("bike", "elevators", "pol", "kin40k", "keggdirected", "concrete", "energy", "yacht"),
            ("dnn", "svdkl", "lightgbm", "svgp"),
            folds=tuple(range(10)),
            seeds=(0,),
        ),
        # Two sets that need no file, to see in minutes that all is in place.
        Suite(
            "smoke",
            "Classes, a small set",
            "classification",
            ("tumours",),
            ("dnn", "dnn_plus", "dnn_gp", "svdkl_paper", "svdkl", "lightgbm"),
            folds=(0, 1),
            seeds=(0,),
        ),
        Suite(
            "smoke_regression",
            "Real targets, a small set",
            "regression",
            ("progression",),
            ("dnn", "dnn_gp", "svdkl", "lightgbm", "svgp"),
            folds=(0, 1),
            seeds=(0,),
        ),
    )
}


def get_suite(name: str) -> Suite:
    """A suite by name."""
    if name not in SUITES:
        raise ValueError(f"Expected a suite out of {', '.join(SUITES)}, got {name!r}.")
    return SUITES[name]


def parse_only(text: str) -> dict[str, set[str]]:
    """What ``dataset=adult,model=svdkl,seed=0`` selects; a key may come more than once."""
    chosen: dict[str, set[str]] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals or key not in ("dataset", "model", "fold", "seed") or not value:
            raise ValueError(f"Expected --only as dataset=...,model=...,fold=...,seed=..., got {part!r}.")
        chosen.setdefault(key, set()).add(value)
    return chosen


def select(suite: Suite, only: Mapping[str, set[str]]) -> list[Task]:
    """The suite's tasks that were asked for; each value has to name one at least."""
    known = {
        "dataset": set(suite.datasets),
        "model": set(suite.results),
        "fold": {str(fold) for fold in suite.folds},
        "seed": {str(seed) for seed in suite.seeds},
    }
    for key, values in only.items():
        for value in sorted(values - known[key]):
            raise ValueError(
                f"Expected a {key} of the suite {suite.name} out of {', '.join(sorted(known[key]))}, got {value!r}."
            )
    chosen = {**known, **only}
    models = {model_of(result) for result in chosen["model"]}
    return [
        task
        for task in suite.tasks()
        if task.dataset in chosen["dataset"]
        and task.model in models
        and str(task.fold) in chosen["fold"]
        and str(task.seed) in chosen["seed"]
    ]
