"""What the Gaussian processes have learned.

Doubtful test rows beside those that the deep kernel takes for most like them.
"""

import numpy as np

from svdkl.model import SVDKL
from svdkl.report.facts.all_facts import Facts
from svdkl.report.facts.doubt import most_doubtful
from svdkl.report.facts.gp_facts import (
    Processes,
    drivers,
    kernels,
    learned_function,
    neighbours,
    rows_by_class,
    rows_by_value,
    strongest_output,
)
from svdkl.report.facts.model_facts import has_evidence
from svdkl.report.facts.predictions import ClassPredictions, Predictions, Reals
from svdkl.report.figures.gp_plots import function, grid_use, hyperparameters, kernel, mixing
from svdkl.report.html import Panel, Section, figure, heading, paragraph, table
from svdkl.report.thumbnails import numbered
from svdkl.report.words import ABSENT, count, label, number, share

MOST_DRAWN = 50  # GPs in figures of all,
MOST_FUNCTIONS = 6  # and those with a panel of their own
MOST_KERNELS = 5
MOST_OUTPUTS = 60
MOST_DRIVERS = 3  # processes of a class

MOST_ROWS = 5
MOST_TARGETS = 3


def processes(facts: Facts) -> Section:
    """All figures on the GPs; for plain networks, that there are none."""
    model, found = facts.estimator.model_, facts.processes
    if found is None:
        words = f"The recipe {facts.estimator.recipe!r} has no Gaussian processes: their figures are left out."
        return Section("processes", "Gaussian processes", paragraph(words))
    shown = found.order[:MOST_DRAWN].tolist()
    body = paragraph(_summary(found))
    body += _mixing(facts, found, shown)
    body += _drivers_of_classes(facts, found)
    body += _functions(facts, model, found)
    body += _kernels(facts, model, found)
    body += nearest_rows(facts, model)
    body += _hyperparameters(facts, found, shown) + _grid(found, shown)
    return Section("processes", "Gaussian processes", body)


def _summary(found: Processes) -> str:
    total = found.influence.sum()
    if total == 0:
        return "No process moves any output on the test rows: the model gives all of them the same prediction."
    reached = int(np.searchsorted(np.cumsum(found.influence[found.order]) / total, 0.9)) + 1
    idle = int((found.influence < 1e-3 * found.influence.max()).sum())
    words = (
        f"Outputs are sums of {count(len(found.order), 'process', 'processes')}, each a function of features of the "
        f"network, numbered from 0. Their influence is how far they move the outputs from row to row: "
        f"{count(reached, 'process has', 'processes have')} 90 % of it together"
    )
    return f"{words}, and {idle} have next to none." if idle else f"{words}."


def _mixing(facts: Facts, found: Processes, shown: list[int]) -> str:
    names = [label(name, 20) for name in facts.outputs[:MOST_OUTPUTS]]
    # One process an output, as in the paper: in the outputs' order the weights lie on the diagonal.
    own_order = facts.estimator.gps == "outputs"
    shown = sorted(shown) if own_order else shown
    weights = found.mixing[:MOST_OUTPUTS, shown]
    place, largest = np.unravel_index(np.abs(weights).argmax(), weights.shape)
    panel = Panel(
        mixing(weights, names, shown, "Gaussian process" + (", by falling influence" * (not own_order))),
        f"The largest weight is {number(weights[place, largest])}, of process {shown[largest]} on {names[place]}.",
    )
    outputs = "class" if isinstance(facts.predictions, ClassPredictions) else "target"
    caption = (
        f"Read a column as: which {outputs} does this process speak for (blue) and against (orange)? The full colour "
        f"is a weight of {number(float(np.abs(weights).max()))}.{_only(found, shown)}"
    )
    return figure("mixing", "Mixing matrix", [panel], caption, wide=True)


def _drivers_of_classes(facts: Facts, found: Processes) -> str:
    """A table of the processes that move the score of each class most; nothing for real targets."""
    if not isinstance(facts.predictions, ClassPredictions) or not found.moves.any():
        return ""
    lines = []
    for place, name in enumerate(facts.outputs[:MOST_OUTPUTS]):
        cells = [
            f"{one.gp} ({'+' if one.move > 0 else '−'}, {share(one.share)})"
            for one in drivers(found, place, MOST_DRIVERS)
        ]
        lines.append([label(name), *cells, *[ABSENT] * (MOST_DRIVERS - len(cells))])
    left_out = len(facts.outputs) - len(lines)
    words = (
        "The processes that move the score of a class most from row to row, each with the sign of its weight on that "
        "class and its share of what all processes move the score by, relative to the mean of all classes."
    )
    if left_out:
        words += f" {count(left_out, 'more class is', 'more classes are')} not shown."
    head = ["Class", "Process (sign, share)", *(f"{place}." for place in range(2, MOST_DRIVERS + 1))]
    return heading("Which processes drive which class") + paragraph(words) + table(head, lines, kind="lines")


def _functions(facts: Facts, model: SVDKL, found: Processes) -> str:
    panels = []
    for gp in _influential(found, MOST_FUNCTIONS):
        line = learned_function(model, facts.features, gp)
        output, weight = strongest_output(found, gp)
        towards = label(facts.outputs[output], 18)
        sign = "+" if weight > 0 else "−"
        svg = function(
            line.feature, line.mean, line.std, line.rows, f"process {gp}  →  {sign} {towards}",
            f"feature {model.gp_head.gps.groups[gp][0]}", f"f{gp}",
        )  # fmt: skip
        ends = f"{number(line.mean[0])} to {number(line.mean[-1])}"
        panels.append(Panel(svg, f"Process {gp} goes from {ends} over the range of the rows, {sign} {towards}."))
    several = max(map(len, model.gp_head.gps.groups)) > 1
    held = " Other features of a process are held at their medians." if several else ""
    caption = (
        "Read it as: what does the process make of its feature? The band is two standard deviations, columns below "
        f"show where the test rows lie, and the title names the output that it moves most when it rises.{held}"
    )
    return figure("functions", "Learned functions of the most influential processes", panels, caption) if panels else ""


def _kernels(facts: Facts, model: SVDKL, found: Processes) -> str:
    predictions = facts.predictions
    rows = predictions.doubt.rows
    if isinstance(predictions, ClassPredictions):
        labels = predictions.labels[rows]
        chosen = rows_by_class(labels, len(predictions.classes), len(found.order))
        sizes = np.bincount(labels[chosen], minlength=len(predictions.classes)).tolist()
        groups = [(label(name, 10), size) for name, size in zip(predictions.classes, sizes) if size]
        by = "class"
    else:
        chosen = rows_by_value(predictions.values[rows, 0], len(found.order))
        groups = [("", len(chosen))]
        by = f"{label(predictions.targets[0])}, which rises to the right and down"
    driven = _shown_drivers(facts, found)
    matrices = kernels(model, facts.features[chosen], [gp for gp, _ in driven])
    panels = [
        Panel(
            kernel(matrices.summed, groups, "all processes, as mixed", _span(matrices.summed)),
            "Sum over all processes.",
        )
    ]
    for gp, output in driven:
        matrix, towards = matrices.by_gp[gp], label(facts.outputs[output], 18)
        svg = kernel(matrix, groups, f"process {gp}  →  {towards}", _span(matrix))
        blocks = _blocks(matrix, [size for _, size in groups])
        panels.append(Panel(svg, f"Process {gp}, which moves {towards} most: {blocks}"))
    told = "that was asked for, by the process that drives it most" if facts.chosen else "that its process moves most"
    caption = (
        f"Read a pixel as: how alike are two test rows ({count(len(chosen))} of them, sorted by {by}) to the kernel on "
        "the network's features? Blue blocks on the diagonal are rows that are taken for alike, blue ones off it are "
        "what is hard to tell apart. The first matrix is the sum over all processes, by their squared mixing weights; "
        "colours go from the smallest to the largest value of each, which stand below it. Titles name the output "
        f"{told}.{kernel_caveat(model)}"
    )
    return figure("kernels", "Covariance of test rows under the deep kernel", panels, caption)


def _shown_drivers(facts: Facts, found: Processes) -> list[tuple[int, int]]:
    """Processes to show the covariance of, each with the output that it stands for."""
    if facts.chosen:
        return [(one.gp, output) for output in facts.chosen for one in drivers(found, output, 1)]
    return [(gp, strongest_output(found, gp)[0]) for gp in _influential(found, MOST_KERNELS)]


def _span(matrix: Reals) -> str:
    low, high = float(matrix.min()), float(matrix.max())
    # Interpolation leaves a little of either sign where the kernel is zero.
    return f"{number(low if abs(low) > 1e-3 * high else 0)} to {number(high)}"


def _blocks(matrix: Reals, sizes: list[int]) -> str:
    """Mean covariance within and between groups."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    same = groups[:, None] == groups
    within = number(float(matrix[same].mean()))
    if bool(same.all()):
        return f"the mean covariance is {within}."
    return f"the mean covariance is {within} within and {number(float(matrix[~same].mean()))} between groups."


def _hyperparameters(facts: Facts, found: Processes, shown: list[int]) -> str:
    deviations, lengthscales = found.deviations[shown], found.lengthscales[shown]
    known = np.isfinite(lengthscales)
    spread = f"{number(float(deviations.min()))} to {number(float(deviations.max()))}"
    panel = Panel(hyperparameters(deviations, lengthscales, shown), f"Prior deviations from {spread}.")
    caption = (
        "Read it as: how large is a function expected to be (deviation), and over which part of its axis does it "
        "change (lengthscale; 1 is the whole grid, of which the training rows fill the inner half)?"
        f"{_only(found, shown)}"
    )
    if has_evidence(facts.estimator.model_):
        caption += " After the held-out evidence both are those of what that stage may add to the function."
    if not known.any():
        caption += " The kernel has no lengthscale."
    return figure("hyperparameters", "Prior deviations and lengthscales", [panel], caption, wide=True)


def _grid(found: Processes, shown: list[int]) -> str:
    shares = [found.grid_use[gp] for gp in shown]
    used = float(np.mean([(one > 0).mean() for one in shares]))
    panel = Panel(grid_use(shares, shown), f"On average {share(used)} of the cells of a process hold test rows.")
    caption = (
        "Read a line as: where on its grid do the test rows of a process lie? Full cells in the middle are as they "
        "should be; one full cell in a line is a process that sees a constant, full cells at an end are rows far "
        f"outside of the training range. Colours go with the square root of the share.{_only(found, shown)}"
    )
    return figure("grid", "Use of the grid", [panel], caption)


def _influential(found: Processes, most: int) -> list[int]:
    return [gp for gp in found.order[:most].tolist() if found.influence[gp] > 0]


def _only(found: Processes, shown: list[int]) -> str:
    left_out = len(found.order) - len(shown)
    return f" {count(left_out, 'less influential process is', 'less influential ones are')} not drawn." * (left_out > 0)


def nearest_rows(facts: Facts, model: SVDKL) -> str:
    """A table of the most doubtful rows and their nearest neighbours; nothing where there is one row only."""
    predictions = facts.predictions
    rows, doubtful = predictions.doubt.rows, most_doubtful(predictions)[:MOST_ROWS]
    if len(rows) < 2:
        return ""
    found = neighbours(model, facts.features, np.searchsorted(rows, doubtful))
    lines = [
        [numbered(facts, int(row)), _truth(predictions, int(row))]
        + [
            numbered(facts, int(near), f": {_truth(predictions, int(near))} ({number(float(alike))})")
            for near, alike in zip(rows[places], likeness)
        ]
        for row, places, likeness in zip(doubtful, found.places, found.likeness)
    ]
    head = ["Row", "Truth", "Nearest row: truth (likeness)", *(f"{place}." for place in range(2, len(lines[0]) - 1))]
    words = (
        "For the most uncertain rows, the test rows that the kernel on the network's features takes for most like "
        "them, and what those are: a row among others of another truth is hard to tell, or its label is wrong. The "
        "likeness is the correlation of the outputs under all processes, by their squared mixing weights: 1 is the "
        f"same, 0 has nothing in common.{kernel_caveat(model)}"
    )
    return heading("Nearest rows under the deep kernel") + paragraph(words) + table(head, lines, [0], kind="lines")


def kernel_caveat(model: SVDKL) -> str:
    """What is to be said of the kernel of a model whose last stage has replaced it; to end a paragraph."""
    if not has_evidence(model):
        return ""
    return " After the held-out evidence this is the kernel of what that stage may add to the functions."


def _truth(predictions: Predictions, row: int) -> str:
    if isinstance(predictions, ClassPredictions):
        return label(predictions.classes[int(predictions.labels[row])])
    return ", ".join(number(float(value), 4) for value in predictions.values[row, :MOST_TARGETS])
