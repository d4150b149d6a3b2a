"""Paragraphs below a table: missing runs and smaller budgets, training times, verdicts."""

import math
from statistics import mean
from typing import Any

from svdkl_research.datasets import ELSEWHERE
from svdkl_research.pages.measures import OUTSIDE
from svdkl_research.pages.outdated import outdated
from svdkl_research.pages.paper import REMARKS, tables_on, time_ratio
from svdkl_research.pages.verdicts import OURS, verdicts
from svdkl_research.rivals import TITLES
from svdkl_research.suites.results import Result, values_of
from svdkl_research.suites.suite import Suite

ByModel = dict[str, list[Result]]
CORE_SECONDS = "train_core_seconds"


def remarks(suite: Suite, dataset: str, by_model: ByModel) -> list[str]:
    """Write the paragraphs below the table of a set."""
    parts = [_missing(suite, dataset, by_model), _unseen(dataset, by_model)]
    parts += [_outdated(suite, by_model), _times(dataset, by_model), _epochs(by_model)]
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
    """Name models with fewer runs or rows than others: by the suite, by their cost, or not run yet."""
    present = [model for model in suite.results if suite.folds_of(dataset, model)]
    most_seeds = seeds_on(suite, dataset)
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
        # Rivals whose time grows faster than the rows are fitted to some of them, and record how many.
        for rows, of_rows in sorted({_fitted_rows(result) for result in results}):
            if rows < of_rows:
                sentences.append(f"`{model}` was fitted to {rows:,} of {of_rows:,} rows.")
        sentences += [*_ended_by_time(model, results), *_ended_by_rounds(model, results)]
    if short:
        sentences.append(f"Runs are missing: {', '.join(short)}.")
    return " ".join(sentences)


def seeds_on(suite: Suite, dataset: str) -> tuple[int, ...]:
    """Return the seeds of the models with most seeds on a set."""
    return max((suite.seeds_of(dataset, model) for model in suite.models if suite.folds_of(dataset, model)), key=len)


def _unseen(dataset: str, by_model: ByModel) -> str:
    """Name the models that were fitted while the out-of-distribution images were missing."""
    unseen = [
        f"`{model}`" for model, results in by_model.items() if len(values_of(results, OUTSIDE[0].key)) < len(results)
    ]
    if dataset not in ELSEWHERE or not unseen:
        return ""
    return (
        f"Not shown images of {ELSEWHERE[dataset]}: {', '.join(unseen)}; to measure that, delete their lines in "
        f"runs.jsonl and run the suite again where that set is there."
    )


def _outdated(suite: Suite, by_model: ByModel) -> str:
    """Name the models whose defaults of training differ from today's, as far as that is known."""
    changed, unknown = [], []
    for model, results in by_model.items():
        found = [outdated(suite, result) for result in results]
        names = [each for each in found if each]
        if names:
            changed.append(f"`{model}` ({', '.join(sorted(set().union(*names)))}; {len(names)} of {len(found)} runs)")
        if None in found:
            unknown.append(f"`{model}` ({found.count(None)} of {len(found)} runs)")
    sentences = []
    if changed:
        sentences.append(f"Trained with other numbers than the same model would be now: {', '.join(changed)}.")
    if unknown:
        sentences.append(f"By an earlier version, which does not say with what numbers: {', '.join(unknown)}.")
    if sentences:
        sentences.append("To repeat them, delete their lines in runs.jsonl and run the suite again.")
    return " ".join(sentences)


def _fitted_rows(result: Result) -> tuple[int, int]:
    findings = result.config.get("findings", {})
    return findings.get("rows", 0), findings.get("of_rows", 0)


def _ended_by_time(model: str, results: list[Result]) -> list[str]:
    """Say how far a model came whose budget in seconds ended before its steps did."""
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


def _ended_by_rounds(model: str, results: list[Result]) -> list[str]:
    """Say whether boosting was still improving when it reached its largest number of rounds."""
    ended = 0
    for result in results:
        settings, chosen = result.config.get("settings", {}), result.config.get("findings", {}).get("chosen", {})
        if "rounds" in settings and "rounds" in chosen:
            ended += chosen["rounds"] + settings["patience"] > settings["rounds"]
    runs = "" if ended == len(results) else f" in {ended} of {len(results)} runs"
    return [f"`{model}` had not stopped growing better at its largest number of rounds{runs}."] if ended else []


def _times(dataset: str, by_model: ByModel) -> str:
    """Give SV-DKL's training time as a multiple of the network's, over the runs that both have.

    Times are core seconds, which other work on the machine lengthens less than seconds of the clock. Only pairs of fits
    by the same code on the same processor count.
    """
    networks = {result.run: result for result in by_model.get("dnn") or by_model.get("cnn", [])}
    ratios = []
    for model in OURS:
        pairs = [(result, networks[result.run]) for result in by_model.get(model, []) if result.run in networks]
        counted = [pair for pair in pairs if _timed_alike(*pair)]
        if counted:
            own, network = (sum(result.metrics[CORE_SECONDS] for result in side) for side in zip(*counted))
            over = f" over {len(counted)} of {len(pairs)} runs" if len(counted) < len(pairs) else ""
            papers = time_ratio(dataset) if model == "svdkl_paper" else None
            paper = "" if papers is None else f" (in the paper {papers:.1f})"
            ratios.append(f"{TITLES[model]} {own / network:.2f}{over}{paper}")
    return f"Core seconds of training, as a multiple of the network's: {', '.join(ratios)}." if ratios else ""


def _epochs(by_model: ByModel) -> str:
    """Give the mean epochs of each model, and name the models whose last stage improved nothing."""
    means, in_vain = [], []
    for model in ("dnn", "cnn", "dnn_plus", "cnn_plus", *OURS):
        results = [result for result in by_model.get(model, []) if stages_of(result)]
        if results:
            means.append(f"{TITLES[model]} {mean(map(epochs_of, results)):.3g}")
            unused = sum(list(stages_of(result).values())[-1].get("kept") == 0 for result in results)
            if unused:
                in_vain.append(f"{TITLES[model]} ({unused} of {len(results)} runs)")
    sentences = [f"Mean epochs of the network, of the same budget: {', '.join(means)}."] if means else []
    if in_vain:
        sentences.append(
            f"No epoch of the last stage was better on the validation rows than its start, which was kept: "
            f"{', '.join(in_vain)}."
        )
    return " ".join(sentences)


def stages_of(result: Result) -> dict[str, dict[str, Any]]:
    """Return epochs and seconds of each training stage of a run; empty where they are unknown."""
    return dict(result.config.get("findings", {}).get("stages", {}))


def epochs_of(result: Result) -> int:
    """Count the epochs of a run over all stages of its training."""
    return sum(stage["epochs"] for stage in stages_of(result).values())


def _timed_alike(one: Result, other: Result) -> bool:
    """Tell whether both runs know their core seconds, and ran the same code on the same processor."""
    origins = [(result.provenance["commit"], result.provenance["machine"]["processor"]) for result in (one, other)]
    return origins[0] == origins[1] and all(result.metrics.get(CORE_SECONDS) for result in (one, other))
