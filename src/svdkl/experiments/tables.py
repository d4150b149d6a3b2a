"""Tables in Markdown, made from the folders of results and from nothing else."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from svdkl.experiments.baselines import TITLES
from svdkl.experiments.datasets.dataset import Task as Kind
from svdkl.experiments.progress import duration
from svdkl.experiments.results import Result, read_results
from svdkl.experiments.suites import Suite


@dataclass(frozen=True)
class Measure:
    """A column: where its number is, how it is written, and what is best."""

    key: str
    title: str
    digits: int
    better: str  # "high", "low", or "near" for what is best at the target
    target: float = 0.0

    def distance(self, value: float) -> float:
        """How far from the best a value is."""
        return {"high": -value, "low": value, "near": abs(value - self.target)}[self.better]


MEASURES: dict[Kind, tuple[Measure, ...]] = {
    "classification": (
        Measure("accuracy", "accuracy", 4, "high"),
        Measure("nlp", "NLP", 4, "low"),
        Measure("ece", "ECE", 4, "low"),
        Measure("brier", "Brier", 4, "low"),
        Measure("auroc", "AUROC", 4, "high"),
    ),
    "regression": (
        Measure("rmse", "RMSE", 4, "low"),
        Measure("nlpd", "NLPD", 4, "low"),
        Measure("crps", "CRPS", 4, "low"),
        Measure("coverage95", "95 % interval holds", 3, "near", 0.95),
    ),
}


def suite_tables(suite: Suite, root: Path) -> str:
    """All tables of a suite: a set each, a model a row; mean ± standard deviation over runs, the best in bold."""
    found = list(read_results(root, suite))
    if not found:
        raise ValueError(
            f"Expected results of the suite {suite.name} in {root / suite.name}, found none: run the suite first."
        )
    parts = [f"# {suite.title}", _introduction(suite)]
    for dataset in suite.datasets:
        by_model: dict[str, list[Result]] = defaultdict(list)
        for result in found:
            if result.dataset == dataset:
                by_model[result.model].append(result)
        if by_model:
            parts.append(f"## {dataset}\n\n{dataset_table(suite, by_model)}")
    parts.append(_origin(found))
    return "\n\n".join(parts) + "\n"


def dataset_table(suite: Suite, by_model: dict[str, list[Result]]) -> str:
    """The table of one set, with a note below it where runs are missing."""
    measures = MEASURES[suite.kind]
    titles = ["model", *(measure.title for measure in measures), "training", "prediction", "runs"]
    lines = [_row(titles), _row(["---"] * len(titles))]
    models = [model for model in suite.results if model in by_model]
    columns = [_column(measure, [by_model[model] for model in models]) for measure in measures]
    for place, model in enumerate(models):
        results = by_model[model]
        times = [_mean_time(results, key) for key in ("train_seconds", "predict_seconds")]
        lines.append(_row([TITLES[model], *(column[place] for column in columns), *times, str(len(results))]))
    expected = len(suite.folds) * len(suite.seeds)
    short = [model for model in suite.results if len(by_model.get(model, [])) < expected]
    if short:
        lines.append(f"\nFewer than the suite's {expected} runs: {', '.join(f'`{model}`' for model in short)}.")
    return "\n".join(lines)


def _column(measure: Measure, groups: list[list[Result]]) -> list[str]:
    """The cells of a column; in bold those that are the best as far as the digits tell."""
    values = [_values(results, measure.key) for results in groups]
    rounded = [round(mean(v), measure.digits) if v else None for v in values]
    distances = [round(measure.distance(r), measure.digits) for r in rounded if r is not None]
    best = min(distances) if len(distances) > 1 else None
    cells = []
    for value, shown in zip(values, rounded):
        if shown is None:
            cells.append("-")
            continue
        text = f"{shown:.{measure.digits}f}"
        if best is not None and round(measure.distance(shown), measure.digits) == best:
            text = f"**{text}**"
        cells.append(f"{text} ± {stdev(value):.{measure.digits}f}" if len(value) > 1 else text)
    return cells


def _values(results: Iterable[Result], key: str) -> list[float]:
    return [result.metrics[key] for result in results if result.metrics.get(key) is not None]


def _mean_time(results: Iterable[Result], key: str) -> str:
    seconds = mean(_values(results, key))
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _introduction(suite: Suite) -> str:
    folds, seeds = (", ".join(map(str, numbers)) for numbers in (suite.folds, suite.seeds))
    return (
        f"Test rows of fold(s) {folds}, seed(s) {seeds}: mean ± standard deviation over the runs, best mean in bold. "
        f"Times are wall-clock means."
    )


def _origin(results: list[Result]) -> str:
    """Where the figures come from, in a sentence for each combination that occurs."""
    origins: dict[str, int] = defaultdict(int)
    for result in results:
        origins[_origin_of(result.provenance)] += 1
    return "\n".join(f"{count} result(s): {origin}." for origin, count in origins.items())


def _origin_of(record: dict[str, Any]) -> str:
    machine, versions = record["machine"], record["versions"]
    commit = "no commit known" if record["commit"] is None else f"commit {record['commit'][:10]}"
    changes = " with changes" if record["dirty"] else ""
    return f"{commit}{changes}, torch {versions['torch']}, {machine['processor']}, {machine['threads']} thread(s)"
