"""A suite of data sets, models, folds and seeds, its tasks, and the choice of some of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

from svdkl_research.datasets.dataset import Kind
from svdkl_research.rivals import PLAIN_NETWORKS

WHOLE = Fraction(1)


@dataclass(frozen=True)
class Task:
    """One fit of a model, the smallest piece of work, which a worker of its own does.

    Attributes
    ----------
    share
        Share of the training rows that the model is fitted to.
    """

    suite: str
    dataset: str
    model: str
    fold: int
    seed: int
    share: Fraction = WHOLE

    @property
    def run(self) -> str:
        """Name of the run in the results and in the scratch folder."""
        part = "" if self.share == WHOLE else f"-share{self.share.numerator}of{self.share.denominator}"
        return f"fold{self.fold}-seed{self.seed}{part}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """Command line arguments that name the task, without folders, which differ from machine to machine."""
        part = () if self.share == WHOLE else ("--share", str(self.share))
        numbers = ("--fold", f"{self.fold}", "--seed", f"{self.seed}", *part)
        return ("run-task", self.suite, self.dataset, self.model, *numbers)

    def __str__(self) -> str:
        return f"{self.dataset} {self.model} {self.run}"


@dataclass(frozen=True)
class Suite:
    """A set of fits: every model on every data set, fold and seed, with some exceptions.

    Attributes
    ----------
    fewer_folds
        The folds of a set and model that does not run on all of them; possibly none.
    parts
        Shares of the training rows that the models in ``models_on_parts`` are fitted to as well, on the first fold and
        with the first seed.
    max_rows
        Most training rows, drawn at random; None for all.
    max_epochs
        Most epochs of models on images; None for the whole budget of a set.
    fewer_seeds
        The seeds of a set and model that does not run with all of them.
    refined
        Results that each fit of a plain network to all training rows gives beside its own.
    """

    name: str
    title: str
    kind: Kind
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    folds: tuple[int, ...]
    seeds: tuple[int, ...]
    fewer_folds: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    parts: tuple[Fraction, ...] = ()
    models_on_parts: tuple[str, ...] = ()
    max_rows: int | None = None
    max_epochs: int | None = None
    fewer_seeds: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    refined: tuple[str, ...] = ("dnn_temperature",)

    def tasks(self) -> Iterator[Task]:
        """Yield all fits, set by set, and on each set run by run of all models."""
        every = product(self.datasets, self.shares, self.folds, self.seeds, self.models)
        first = (self.folds[0], self.seeds[0])
        for dataset, share, fold, seed, model in every:
            on_share = share == WHOLE or (model in self.models_on_parts and (fold, seed) == first)
            if on_share and fold in self.folds_of(dataset, model) and seed in self.seeds_of(dataset, model):
                yield Task(self.name, dataset, model, fold, seed, share)

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The shares of the training rows that occur, smaller ones first, since they take less time."""
        return (*self.parts, WHOLE)

    def folds_of(self, dataset: str, result: str) -> tuple[int, ...]:
        """Return the folds of a set on which the model of a result is fitted."""
        return self.fewer_folds.get((dataset, self.model_of(result)), self.folds)

    def seeds_of(self, dataset: str, result: str) -> tuple[int, ...]:
        """Return the seeds with which the model of a result is fitted to a set."""
        return self.fewer_seeds.get((dataset, self.model_of(result)), self.seeds)

    def results_of(self, model: str, share: Fraction = WHOLE) -> tuple[str, ...]:
        """Return the names of the results that a fit of a model to a share of the rows gives."""
        return (model, *self.refined) if model in PLAIN_NETWORKS and share == WHOLE else (model,)

    def paper_set(self, dataset: str) -> str:
        """Return the name of a set whose minibatches of the paper models should take, or "" for their own.

        A small suite has too few rows for the paper's.
        """
        return dataset if self.max_rows is None else ""

    def model_of(self, result: str) -> str:
        """Return the model of this suite whose fit gives a result."""
        return next(model for model in self.models if result in self.results_of(model))

    @property
    def results(self) -> tuple[str, ...]:
        """Names of all results, in the order of the tables."""
        return tuple(result for model in self.models for result in self.results_of(model))


def parse_only(text: str) -> dict[str, set[str]]:
    """Parse a selection such as ``dataset=adult,model=svdkl,seed=0``, in which a key may come more than once."""
    keys = ("dataset", "model", "fold", "seed", "share")
    chosen: dict[str, set[str]] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or key not in keys or not value:
            expected = ",".join(f"{key}=..." for key in keys)
            raise ValueError(f"Expected --only as {expected}, got {part!r}.")
        chosen.setdefault(key, set()).add(value)
    return chosen


def select(suite: Suite, only: Mapping[str, set[str]]) -> list[Task]:
    """Return the suite's tasks that a selection names; refuse a selection without any."""
    known = {
        "dataset": set(suite.datasets),
        "model": set(suite.results),
        "fold": {str(fold) for fold in suite.folds},
        "seed": {str(seed) for seed in suite.seeds},
        "share": {str(share) for share in suite.shares},
    }
    for key, values in only.items():
        for value in sorted(values - known[key]):
            raise ValueError(
                f"Expected a {key} of the suite {suite.name} out of {', '.join(sorted(known[key]))}, got {value!r}."
            )
    chosen = {**known, **only}
    models = {suite.model_of(result) for result in chosen["model"]}
    tasks = [
        task
        for task in suite.tasks()
        if task.dataset in chosen["dataset"]
        and task.model in models
        and str(task.fold) in chosen["fold"]
        and str(task.seed) in chosen["seed"]
        and str(task.share) in chosen["share"]
    ]
    if not tasks:
        raise ValueError(
            f"Expected --only to leave a task of the suite {suite.name}, got none: see all by --dry-run without --only."
        )
    return tasks
