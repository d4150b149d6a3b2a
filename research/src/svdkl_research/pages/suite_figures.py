"""The figures of a suite: accuracy and time of training by training rows, as in the paper's Figure 2 a and b."""

from pathlib import Path
from statistics import mean, stdev

import numpy as np

from svdkl.report.html import standalone
from svdkl_research.pages.measures import MEASURES
from svdkl_research.pages.remarks import CORE_SECONDS
from svdkl_research.pages.scaling_figure import SizeCurve, scaling
from svdkl_research.rivals import TITLES
from svdkl_research.suites.results import Result, read_results, values_of
from svdkl_research.suites.suite import WHOLE, Suite

LEVEL = "klsp_gp"  # it is fitted to all rows only, so it is drawn as a level


def write_figures(suite: Suite, root: Path) -> list[Path]:
    """Draw accuracy and time against training rows for sets with fits to parts of the rows; return the files."""
    written = []
    measure = MEASURES[suite.kind][0]
    found = list(read_results(root, suite))
    for dataset in suite.datasets:
        results = [result for result in found if result.dataset == dataset]
        if all(result.share == WHOLE for result in results):
            continue
        # Core seconds, since seconds of the clock include other work on the machine.
        for key, label, log in ((measure.key, measure.title, False), (CORE_SECONDS, "core seconds of training", True)):
            curves = [_curve([r for r in results if r.model == model], key) for model in suite.models_on_parts]
            curves = [curve for curve in curves if len(curve.rows)]
            if not curves:
                continue
            levels = values_of((result for result in results if result.model == LEVEL), key)
            level = (TITLES[LEVEL], mean(levels)) if levels else None
            svg = scaling(curves, level, label, log)
            path = root / suite.name / f"{dataset}-{key}.svg"
            path.write_text(standalone(svg), encoding="utf-8")
            written.append(path)
    return written


def _curve(results: list[Result], key: str) -> SizeCurve:
    """Make a curve with a point for each share of the rows, at their mean number: folds differ by a row or two."""
    results = [result for result in results if result.metrics.get(key) is not None]
    shares = sorted({result.share for result in results})
    groups = [[result.metrics for result in results if result.share == share] for share in shares]
    rows = [mean(float(metrics["n_train"]) for metrics in group) for group in groups]
    values = [[float(metrics[key]) for metrics in group] for group in groups]
    spreads = [stdev(group) if len(group) > 1 else 0.0 for group in values]
    name = TITLES[results[0].model] if results else ""
    return SizeCurve(name, np.array(rows), np.array([mean(group) for group in values]), np.array(spreads))
