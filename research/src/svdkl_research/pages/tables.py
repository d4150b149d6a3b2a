"""Tables in Markdown, made from the results and from nothing else, beside the paper's own figures."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from svdkl_research.pages.measures import MEASURES, OUTSIDE, Measure
from svdkl_research.pages.paper import tables_on
from svdkl_research.pages.remarks import CORE_SECONDS, ByModel, epochs_of, remarks, seeds_on, stages_of
from svdkl_research.rivals import TITLES
from svdkl_research.suites.estimates import duration
from svdkl_research.suites.results import Result, read_results, values_of
from svdkl_research.suites.suite import WHOLE, Suite


def suite_tables(suite: Suite, root: Path, figures: Sequence[str] = ()) -> str:
    """Write the page of a suite: a table for each set, a row for each model, mean ± deviation over the runs.

    Parameters
    ----------
    figures
        Names of figure files beside the page, to show at its end.
    """
    found = list(read_results(root, suite))
    if not found:
        raise ValueError(
            f"Expected results of the suite {suite.name} in {root / suite.name}, found none: run the suite first."
        )
    parts = [f"# {suite.title}", _introduction(suite)]
    for dataset in suite.datasets:
        by_model: ByModel = defaultdict(list)
        for result in found:
            if result.dataset == dataset and result.share == WHOLE:
                by_model[result.model].append(result)
        if by_model:
            parts += [f"## {dataset}", dataset_table(suite, dataset, by_model), *remarks(suite, dataset, by_model)]
            parts += outside_table(suite, dataset, by_model)
        on_parts = [result for result in found if result.dataset == dataset and result.model in suite.models_on_parts]
        if any(result.share != WHOLE for result in on_parts):
            parts += [f"## {dataset}, by training rows", sizes_table(suite, on_parts), *_missing_sizes(suite, on_parts)]
    parts += [f"![{Path(name).stem} by training rows]({name})" for name in figures]
    parts.append(_origin(found))
    return "\n\n".join(parts) + "\n"


def dataset_table(suite: Suite, dataset: str, by_model: ByModel) -> str:
    """Write the table of one set. The paper's figures have columns, and rows even where we have no run."""
    measures = MEASURES[suite.kind]
    reported = [table for table in tables_on(dataset) if set(suite.results) & set(table.figures[dataset])]
    in_paper = {model for table in reported for model in table.figures[dataset]}
    models = [model for model in suite.results if model in by_model or model in in_paper]
    titles = ["model", *(measure.title for measure in measures), "training", "prediction", "runs"]
    titles += [f"paper: {table.title}" for table in reported]
    lines = [row(titles), row(["---"] * len(titles))]
    groups = [by_model.get(model, []) for model in models]
    columns = [column(measure, groups) for measure in measures]
    for place, (model, results) in enumerate(zip(models, groups)):
        times = [_mean_time(results, key) for key in ("train_seconds", "predict_seconds")]
        papers = [table.figures[dataset].get(model, "-") for table in reported]
        cells = [TITLES[model], *(each[place] for each in columns), *times, str(len(results))]
        lines.append(row(cells + papers))
    return "\n".join(lines)


def outside_table(suite: Suite, dataset: str, by_model: ByModel) -> list[str]:
    """Tabulate how well each score of each model tells images of another set from the test images."""
    scored = {model: by_model[model] for model in suite.results if values_of(by_model.get(model, []), OUTSIDE[0].key)}
    if not scored:
        return []
    rows: list[tuple[str, str, list[Result]]] = []
    for model, results in scored.items():
        found = {key for result in results for key in result.metrics if key.startswith(OUTSIDE[0].key)}
        keys = sorted(found, key=lambda key: (len(key), key))
        rows += [(model, key.removeprefix(OUTSIDE[0].key), results) for key in keys]
    columns = [
        _cells(measure, [values_of(results, measure.key + ending) for _, ending, results in rows])
        for measure in OUTSIDE
    ]
    titles = ["model", "score", *(measure.title for measure in OUTSIDE), "runs"]
    lines = [row(titles), row(["---"] * len(titles))]
    for place, (model, ending, results) in enumerate(rows):
        name = ending.removeprefix("_") or "1 - largest probability"
        lines.append(row([TITLES[model], name, *(each[place] for each in columns), str(len(results))]))
    sets = sorted({str(result.config.get("elsewhere")) for results in scored.values() for result in results})
    return [f"## {dataset}, against images of {', '.join(sets)}", "\n".join(lines)]


def sizes_table(suite: Suite, results: list[Result]) -> str:
    """Tabulate a set's first two measures, epochs and training time for each share of the rows."""
    measures = MEASURES[suite.kind][:2]
    titles = ["model", "share", "training rows", *(measure.title for measure in measures)]
    titles += ["epochs", "training, of a core", "runs"]
    lines = [row(titles), row(["---"] * len(titles))]
    for model in suite.models_on_parts:
        for share in suite.shares:
            group = [result for result in results if (result.model, result.share) == (model, share)]
            if group:
                rows = f"{round(mean(values_of(group, 'n_train'))):,}"
                cells = [column(measure, [group])[0] for measure in measures]
                epochs = [epochs_of(result) for result in group if stages_of(result)]
                cost = [f"{mean(epochs):.3g}" if epochs else "-", _mean_time(group, CORE_SECONDS)]
                lines.append(row([TITLES[model], str(share), rows, *cells, *cost, str(len(group))]))
    return "\n".join(lines)


def _missing_sizes(suite: Suite, results: list[Result]) -> list[str]:
    there = {(result.model, result.share) for result in results}
    all_of_them = product(suite.models_on_parts, suite.shares)
    short = [f"`{model}` on {share}" for model, share in all_of_them if (model, share) not in there]
    return [f"Runs are missing: {', '.join(short)}."] if short else []


def column(measure: Measure, groups: list[list[Result]]) -> list[str]:
    """Write the cells of a column. A model that lacks some folds cannot win: it was scored on other rows."""
    folds = [{result.run.partition("-")[0] for result in results} for results in groups]
    values = [values_of(results, measure.key) for results in groups]
    return _cells(measure, values, [own == set().union(*folds) for own in folds])


def _cells(measure: Measure, values: list[list[float]], comparable: list[bool] | None = None) -> list[str]:
    """Write mean and deviation of each group, the best mean in bold; groups equal in all printed digits tie."""
    may_win = comparable or [True] * len(values)
    rounded = [round(mean(v), measure.digits) if v else None for v in values]
    distances = [
        round(measure.distance(r), measure.digits) for r, may in zip(rounded, may_win) if may and r is not None
    ]
    best = min(distances) if len(distances) > 1 else None
    cells = []
    for value, shown, may in zip(values, rounded, may_win):
        if shown is None:
            cells.append("-")
            continue
        text = f"{shown:.{measure.digits}f}"
        if may and best is not None and round(measure.distance(shown), measure.digits) == best:
            text = f"**{text}**"
        cells.append(f"{text} ± {stdev(value):.{measure.digits}f}" if len(value) > 1 else text)
    return cells


def _mean_time(results: Iterable[Result], key: str) -> str:
    values = values_of(results, key)
    if not values:
        return "-"
    seconds = mean(values)
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)


def row(cells: list[str]) -> str:
    """Write a line of a table."""
    return f"| {' | '.join(cells)} |"


def _introduction(suite: Suite) -> str:
    folds = ", ".join(map(str, suite.folds))
    datasets: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for dataset in suite.datasets:
        datasets[seeds_on(suite, dataset)].append(dataset)
    on = {seeds: f" on {', '.join(names)}" if len(datasets) > 1 else "" for seeds, names in datasets.items()}
    seeds = " and ".join(", ".join(map(str, numbers)) + where for numbers, where in on.items())
    sampled = "" if suite.max_rows is None else f" Only {suite.max_rows:,} training rows at most, drawn at random."
    return (
        f"Test rows of fold(s) {folds}, seed(s) {seeds}: mean ± standard deviation over the runs, best mean in bold "
        f"if it is of all folds. Times are wall-clock means.{sampled}"
    )


def _origin(results: list[Result]) -> str:
    """Say which code and machine the figures come from, with a line for each combination."""
    origins: dict[str, int] = defaultdict(int)
    for result in results:
        origins[_origin_of(result.provenance)] += 1
    return "\n".join(f"{count} result(s): {origin}." for origin, count in origins.items())


def _origin_of(record: dict[str, Any]) -> str:
    machine, versions = record["machine"], record["versions"]
    commit = "no commit known" if record["commit"] is None else f"commit {record['commit'][:10]}"
    changes = " with changes" if record["dirty"] else ""
    return f"{commit}{changes}, torch {versions['torch']}, {machine['processor']}, {machine['threads']} thread(s)"
