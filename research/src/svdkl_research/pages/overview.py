"""Tables inside documents, made from the results and from nothing else.

A comment says what stands below it: ``<!-- results: tabular nlp -->``, up to ``<!-- end of results -->``.
"""

import re
from pathlib import Path

from svdkl_research.pages.measures import MEASURES
from svdkl_research.pages.tables import column, row
from svdkl_research.rivals import TITLES
from svdkl_research.suites.all_suites import get_suite
from svdkl_research.suites.results import Result, read_results
from svdkl_research.suites.suite import WHOLE, Suite

PLACE = re.compile(r"(<!-- results: (\S+) (\S+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def fill_in(document: str, root: Path) -> str:
    """Return the document with its tables filled in from the results in ``root``."""

    def filled(place: re.Match[str]) -> str:
        return f"{place[1]}\n{overview(get_suite(place[2]), place[3], root)}\n\n{place[4]}"

    return PLACE.sub(filled, document)


def overview(suite: Suite, key: str, root: Path) -> str:
    """Tabulate one measure of all models on all sets: mean ± deviation over the runs, the best mean in bold."""
    known = {measure.key: measure for measure in MEASURES[suite.kind]}
    if key not in known:
        raise ValueError(f"Expected a measure of {suite.name} out of {', '.join(known)}, got {key!r}.")
    found = [result for result in read_results(root, suite) if result.share == WHOLE]
    models = [model for model in suite.results if any(result.model == model for result in found)]
    datasets = [dataset for dataset in suite.datasets if any(result.dataset == dataset for result in found)]
    columns = []
    for dataset in datasets:
        groups = [[r for r in found if (r.dataset, r.model) == (dataset, model)] for model in models]
        columns.append([_marked(*each) for each in zip(column(known[key], groups), groups, strict=True)])
    lines = [row(["", *datasets]), row(["---"] * (len(datasets) + 1))]
    lines += [row([TITLES[model], *cells]) for model, *cells in zip(models, *columns, strict=True)]
    return "\n".join(lines)


def _marked(cell: str, results: list[Result]) -> str:
    """Mark the cell of a single run, which has no spread to show."""
    return f"{cell} (one run)" if len(results) == 1 else cell
