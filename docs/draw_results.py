"""Draw how likely each model finds the test rows, beside the plain network, on all tables of three suites.

    python docs/draw_results.py                  # reads results/, writes docs/images/results.svg
    python docs/draw_results.py other/results figure.svg

Needs the package in research/ (``pip install -e research``).
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from svdkl_research.suites.all_suites import get_suite
from svdkl_research.suites.results import Result, read_results
from svdkl_research.suites.suite import WHOLE

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "results.svg"
MODELS = {  # name: title, colour, marker
    "dnn_temperature": ("network, temperature", "#999999", "s"),
    "dnn_gp": ("GP on frozen features", "#e69f00", "D"),
    "svdkl": ("SV-DKL", "#0072b2", "o"),
    "lightgbm": ("LightGBM", "#009e73", "^"),
}
# Each panel: its suites, the key of the metric, a title, and the ticks of the axis. The axis is linear between the two
# ticks around 0 and logarithmic outside of them, since differences range from 0.0001 to 3 nats.
PANELS = (
    (("uci", "airline"), "nlp", "Classes: negative log probability", (-0.1, -0.01, -0.002, 0, 0.002, 0.01)),
    (("regression",), "nlpd", "Real targets: negative log density", (-1, -0.1, -0.02, 0, 0.02, 0.1, 1)),
)
HEIGHT = 0.17  # between two models of one set


def differences(results: list[Result], dataset: str, model: str, key: str) -> np.ndarray:
    """Compute a model's metric less the network's, for each run that both have."""
    value = {(r.model, r.run): r.metrics[key] for r in results if r.dataset == dataset}
    runs = [run for name, run in value if name == model and ("dnn", run) in value]
    return np.array([value[model, run] - value["dnn", run] for run in runs])


def draw(axes: Axes, root: Path, suites: tuple[str, ...], key: str, title: str, ticks: tuple[float, ...]) -> None:
    """Draw one panel: a line for each set, a marker for each model that was run on it."""
    results = [r for name in suites for r in read_results(root, get_suite(name)) if r.share == WHOLE]
    datasets = list(dict.fromkeys(r.dataset for r in results))
    for place, (model, (label, colour, marker)) in enumerate(MODELS.items()):
        drawn = list(_means(results, datasets, model, key))
        heights = [datasets.index(name) + HEIGHT * (place - 1.5) for name, _, _ in drawn]
        means, deviations = [mean for _, mean, _ in drawn], [deviation for _, _, deviation in drawn]
        axes.errorbar(means, heights, xerr=deviations, fmt=marker, color=colour, label=label, ms=5, lw=1.2)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=min(abs(tick) for tick in ticks if tick))
    axes.set_xlim(2 * ticks[0], 4 * ticks[-1])
    axes.set_xticks(ticks, [f"{tick:+g}" if tick else "0" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_yticks(range(len(datasets)), datasets)
    axes.set_ylim(len(datasets) - 0.5, -0.5)
    for line in np.arange(0.5, len(datasets) - 1):
        axes.axhline(line, color="#dddddd", linewidth=0.8)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("← better        less the network's, in nats        worse →")


def _means(results: list[Result], datasets: list[str], model: str, key: str) -> Iterator[tuple[str, float, float]]:
    """Mean and standard deviation of the differences on each set that the model was run on."""
    for name in datasets:
        found = differences(results, name, model, key)
        if len(found):
            yield name, found.mean(), found.std(ddof=1) if len(found) > 1 else 0.0


def main(root: Path = ROOT / "results", path: Path = PICTURE) -> None:
    """Draw both panels into a file."""
    figure = Figure(figsize=(10, 4.6), layout="constrained")
    for axes, panel in zip(figure.subplots(1, 2), PANELS, strict=True):
        draw(axes, root, *panel)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(MODELS), frameon=False)
    # The same results give the same bytes: no date, and names of parts that do not change.
    with matplotlib.rc_context({"svg.hashsalt": "svdkl"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, facecolor="white")
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
