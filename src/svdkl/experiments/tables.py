"""Tables in Markdown, made from the folders of results and from nothing else, beside the paper's own figures."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from svdkl.experiments.baselines import TITLES
from svdkl.experiments.datasets import ELSEWHERE
from svdkl.experiments.measures import MEASURES, OUTSIDE, Measure
from svdkl.experiments.paper import REMARKS, tables_on, time_ratio
from svdkl.experiments.progress import duration
from svdkl.experiments.results import Result, read_results
from svdkl.experiments.suite import WHOLE, Suite
from svdkl.experiments.verdicts import OURS, verdicts

ByModel = dict[str, list[Result]]
CORE_SECONDS = "train_core_seconds"


def suite_tables(suite: Suite, root: Path, figures: Sequence[str] = ()) -> str:
    """All tables of a suite: a set each, a model a row; mean ± standard deviation over runs, the best in bold.

    Parameters
    ----------
    figures
        Names of files beside the page that it is to show.
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
            parts += [f"## {dataset}", dataset_table(suite, dataset, by_model), *_remarks(suite, dataset, by_model)]
            parts += outside_table(suite, dataset, by_model)
        on_parts = [result for result in found if result.dataset == dataset and result.model in suite.models_on_parts]
        if any(result.share != WHOLE for result in on_parts):
            parts += [f"## {dataset}, by training rows", sizes_table(suite, on_parts), *_missing_sizes(suite, on_parts)]
    parts += [f"![{Path(name).stem} by training rows]({name})" for name in figures]
    parts.append(_origin(found))
    return "\n\n".join(parts) + "\n"


def dataset_table(suite: Suite, dataset: str, by_model: ByModel) -> str:
    """The table of one set; the paper's figures have columns of their own, and rows where we have no run yet."""
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
    """How well each model tells images of another set from the test images, by each of its scores."""
    scored = {model: by_model[model] for model in suite.results if _values(by_model.get(model, []), OUTSIDE[0].key)}
    if not scored:
        return []
    rows: list[tuple[str, str, list[Result]]] = []
    for model, results in scored.items():
        found = {key for result in results for key in result.metrics if key.startswith(OUTSIDE[0].key)}
        keys = sorted(found, key=lambda key: (len(key), key))
        rows += [(model, key.removeprefix(OUTSIDE[0].key), results) for key in keys]
    columns = [
        _cells(measure, [_values(results, measure.key + ending) for _, ending, results in rows]) for measure in OUTSIDE
    ]
    titles = ["model", "score", *(measure.title for measure in OUTSIDE), "runs"]
    lines = [row(titles), row(["---"] * len(titles))]
    for place, (model, ending, results) in enumerate(rows):
        name = ending.removeprefix("_") or "1 - largest probability"
        lines.append(row([TITLES[model], name, *(each[place] for each in columns), str(len(results))]))
    sets = sorted({str(result.config.get("elsewhere")) for results in scored.values() for result in results})
    return [f"## {dataset}, against images of {', '.join(sets)}", "\n".join(lines)]


def sizes_table(suite: Suite, results: list[Result]) -> str:
    """How a set's first two measures and the time of training change with the rows."""
    measures = MEASURES[suite.kind][:2]
    titles = ["model", "share", "training rows", *(measure.title for measure in measures), "training", "runs"]
    lines = [row(titles), row(["---"] * len(titles))]
    for model in suite.models_on_parts:
        for share in suite.shares:
            group = [result for result in results if (result.model, result.share) == (model, share)]
            if group:
                rows = f"{round(mean(_values(group, 'n_train'))):,}"
                cells = [column(measure, [group])[0] for measure in measures]
                time = _mean_time(group, "train_seconds")
                lines.append(row([TITLES[model], str(share), rows, *cells, time, str(len(group))]))
    return "\n".join(lines)


def _missing_sizes(suite: Suite, results: list[Result]) -> list[str]:
    there = {(result.model, result.share) for result in results}
    all_of_them = product(suite.models_on_parts, suite.shares)
    short = [f"`{model}` on {share}" for model, share in all_of_them if (model, share) not in there]
    return [f"Runs are missing: {', '.join(short)}."] if short else []


def _remarks(suite: Suite, dataset: str, by_model: ByModel) -> list[str]:
    """What there is to say below a set's table."""
    parts = [_missing(suite, dataset, by_model), _unseen(dataset, by_model), _times(dataset, by_model)]
    places = sorted({table.place for table in tables_on(dataset) if set(suite.results) & set(table.figures[dataset])})
    if places:
        remark = REMARKS.get(dataset, "")
        parts.append(f"Columns of the paper: Wilson et al. (2016), {'; '.join(places)}. {remark}".rstrip())
    lines = verdicts(suite, by_model)
    if lines:
        parts.append(
            "Verdicts: mean difference ± standard deviation over the runs that both models have; better or worse if "
            "the mean is larger than the deviation."
        )
        parts.append("\n".join(f"- {line}" for line in lines))
    return [part for part in parts if part]


def _missing(suite: Suite, dataset: str, by_model: ByModel) -> str:
    """Which models have fewer runs or rows than others: by the suite, by their own cost, or not run yet."""
    present = [model for model in suite.results if suite.folds_of(dataset, model)]
    most_seeds = _seeds_on(suite, dataset)
    fewer: dict[str, list[str]] = {}
    for model in present:
        folds, seeds = suite.folds_of(dataset, model), suite.seeds_of(dataset, model)
        if folds != suite.folds:
            fewer.setdefault(f"fold(s) {', '.join(map(str, folds))}", []).append(f"`{model}`")
        if seeds != most_seeds:
            fewer.setdefault(f"seed(s) {', '.join(map(str, seeds))}", []).append(f"`{model}`")
    sentences = [f"By the suite, {runs} only: {', '.join(models)}." for runs, models in fewer.items()]
    left_out = [f"`{model}`" for model in suite.results if model not in present]
    if left_out:
        sentences.append(f"By the suite, not on this set: {', '.join(left_out)}.")
    short = [
        f"`{model}` ({len(by_model.get(model, []))} of {expected})"
        for model in suite.results
        if len(by_model.get(model, []))
        < (expected := len(suite.folds_of(dataset, model)) * len(suite.seeds_of(dataset, model)))
    ]
    for model, results in by_model.items():
        # A rival whose time grows faster than the rows says to how many of them it was fitted.
        for rows, of_rows in sorted({_fitted_rows(result) for result in results}):
            if rows < of_rows:
                sentences.append(f"`{model}` was fitted to {rows:,} of {of_rows:,} rows.")
        sentences += _ended_by_time(model, results)
    if short:
        sentences.append(f"Runs are missing: {', '.join(short)}.")
    return " ".join(sentences)


def _unseen(dataset: str, by_model: ByModel) -> str:
    """Which models were fitted while the images that they were to find strange were missing."""
    unseen = [
        f"`{model}`" for model, results in by_model.items() if len(_values(results, OUTSIDE[0].key)) < len(results)
    ]
    if dataset not in ELSEWHERE or not unseen:
        return ""
    return (
        f"Not shown images of {ELSEWHERE[dataset]}: {', '.join(unseen)}; to measure that, delete their folders and run "
        f"the suite again where that set is there."
    )


def _fitted_rows(result: Result) -> tuple[int, int]:
    findings = result.config.get("findings", {})
    return findings.get("rows", 0), findings.get("of_rows", 0)


def _ended_by_time(model: str, results: list[Result]) -> list[str]:
    """How far models with a budget in seconds came, if that ended them before they had finished."""
    ended = [result.config for result in results if result.config.get("findings", {}).get("ended_by_time")]
    counts = []
    for unit, name in (("steps", "steps"), ("warm_up", "moves to warm up"), ("moves", "moves")):
        taken = [config["findings"][unit] for config in ended if unit in config["findings"]]
        most = max((config.get("settings", {}).get(unit, 0) for config in ended), default=0)
        if taken and min(taken) < (most or math.inf):
            span = f"{min(taken):,}" + (f" to {max(taken):,}" if max(taken) > min(taken) else "")
            counts.append(f"{span} of {most:,} {name}" if most else f"{span} {name}")
    runs = "" if len(ended) == len(results) else f" in {len(ended)} of {len(results)} runs"
    return [f"Time ended `{model}` after {' and '.join(counts)}{runs}."] if counts else []


def _times(dataset: str, by_model: ByModel) -> str:
    """How many times as long as the network alone SV-DKL trains, over the runs that both have.

    In seconds of cores, which other work on the machine lengthens less than those of the clock; runs that have none of
    them do not count.
    """
    networks = {result.run: result for result in by_model.get("dnn") or by_model.get("cnn", [])}
    ratios, commits = [], set()
    for model in OURS:
        pairs = [(result, networks[result.run]) for result in by_model.get(model, []) if result.run in networks]
        counted = [pair for pair in pairs if all(result.metrics.get(CORE_SECONDS) for result in pair)]
        if counted:
            own, network = (sum(result.metrics[CORE_SECONDS] for result in side) for side in zip(*counted))
            ratios.append(f"{TITLES[model]} {own / network:.2f}")
            commits |= {result.provenance.get("commit") for pair in counted for result in pair}
    if not ratios:
        return ""
    papers = time_ratio(dataset)
    paper = "" if papers is None else f" (in the paper {papers:.1f})"
    told = f"Core seconds of training, as a multiple of the network's: {', '.join(ratios)}{paper}."
    busy = " They are of several commits, and so perhaps of machines that were not equally busy."
    return told + busy * (len(commits) > 1)


def column(measure: Measure, groups: list[list[Result]]) -> list[str]:
    """The cells of a column."""
    return _cells(measure, [_values(results, measure.key) for results in groups])


def _cells(measure: Measure, values: list[list[float]]) -> list[str]:
    """Mean and deviation of each group; in bold those that are the best as far as the digits tell."""
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
    return [float(result.metrics[key]) for result in results if result.metrics.get(key) is not None]


def _mean_time(results: Iterable[Result], key: str) -> str:
    values = _values(results, key)
    if not values:
        return "-"
    seconds = mean(values)
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)


def row(cells: list[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def _seeds_on(suite: Suite, dataset: str) -> tuple[int, ...]:
    """The seeds of the models that have the most of them on a set."""
    return max((suite.seeds_of(dataset, model) for model in suite.models if suite.folds_of(dataset, model)), key=len)


def _introduction(suite: Suite) -> str:
    folds = ", ".join(map(str, suite.folds))
    datasets: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for dataset in suite.datasets:
        datasets[_seeds_on(suite, dataset)].append(dataset)
    on = {seeds: f" on {', '.join(names)}" if len(datasets) > 1 else "" for seeds, names in datasets.items()}
    seeds = " and ".join(", ".join(map(str, numbers)) + where for numbers, where in on.items())
    sampled = "" if suite.max_rows is None else f" Only {suite.max_rows:,} training rows at most, drawn at random."
    return (
        f"Test rows of fold(s) {folds}, seed(s) {seeds}: mean ± standard deviation over the runs, best mean in bold. "
        f"Times are wall-clock means.{sampled}"
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
