"""What the Gaussian processes have learned, and which test rows their deep kernel takes for alike."""

import numpy as np

from svdkl.gp.head import GPHead
from svdkl.report.facts.all_facts import Facts
from svdkl.report.facts.doubt import most_doubtful
from svdkl.report.facts.gp_facts import (
    GPFacts,
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

MOST_DRAWN = 50  # GPs: what a figure as wide as the page has room for
MOST_FUNCTIONS = 6  # panels: two or three lines of them
MOST_KERNELS = 5  # beside the panel of the sum
MOST_OUTPUTS = 60  # lines that a figure or table has before it is longer than a screen
MOST_DRIVERS = 3  # GPs of a class that fit into a line
MOST_ROWS = 5  # doubtful ones, each with five neighbours
MOST_TARGETS = 3  # numbers that fit into a cell


def gaussian_processes(facts: Facts) -> Section:
    """Show all figures on the GPs; for plain networks, say that there are none."""
    found = facts.gps
    if found is None:
        words = f"The recipe {facts.fitted.options.recipe!r} has no Gaussian processes: their figures are left out."
        return Section("gps", "Gaussian processes", paragraph(words))
    shown, head = found.order[:MOST_DRAWN].tolist(), facts.fitted.model.gp_head
    body = paragraph(_summary(found))
    body += _mixing(facts, found, shown)
    body += _drivers_of_classes(facts, found)
    body += _functions(facts, head, found)
    body += _kernels(facts, head, found)
    body += nearest_rows(facts)
    body += _hyperparameters(head, found, shown) + _grid(found, shown)
    return Section("gps", "Gaussian processes", body)


def _summary(found: GPFacts) -> str:
    total = found.influence.sum()
    if total == 0:
        return "No GP moves any output on the test rows: the model gives all of them the same prediction."
    reached = int(np.searchsorted(np.cumsum(found.influence[found.order]) / total, 0.9)) + 1
    idle = int((found.influence < 1e-3 * found.influence.max()).sum())
    words = (
        f"Outputs are sums of {count(len(found.order), 'GP')}, each a function of features of the "
        f"network, numbered from 0. Their influence is how far they move the outputs from row to row: "
        f"{count(reached, 'GP has', 'GPs have')} 90 % of it together"
    )
    return f"{words}, and {idle} have next to none." if idle else f"{words}."


def _mixing(facts: Facts, found: GPFacts, shown: list[int]) -> str:
    names = [label(name, 20) for name in facts.outputs[:MOST_OUTPUTS]]
    # With one GP for each output, as in the paper, the weights lie on the diagonal in the outputs' order.
    own_order = facts.fitted.options.gps == "outputs"
    shown = sorted(shown) if own_order else shown
    weights = found.mixing[:MOST_OUTPUTS, shown]
    place, largest = np.unravel_index(np.abs(weights).argmax(), weights.shape)
    panel = Panel(
        mixing(weights, names, shown, "Gaussian process" + (", by falling influence" * (not own_order))),
        f"The largest weight is {number(weights[place, largest])}, of GP {shown[largest]} on {names[place]}.",
    )
    outputs = "class" if isinstance(facts.predictions, ClassPredictions) else "target"
    caption = (
        f"Read a column as: which {outputs} does this GP speak for (blue) and against (orange)? The full colour "
        f"is a weight of {number(float(np.abs(weights).max()))}.{_only(found, shown)}"
    )
    return figure("mixing", "Mixing matrix", [panel], caption, wide=True)


def _drivers_of_classes(facts: Facts, found: GPFacts) -> str:
    """Show a table of the GPs that move the score of each class most; nothing for real targets."""
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
        "The GPs that move the score of a class most from row to row, each with the sign of its weight on that class "
        "and its share of what all GPs move the score by, relative to the mean of all classes."
    )
    if left_out:
        words += f" {count(left_out, 'more class is', 'more classes are')} not shown."
    head = ["Class", "GP (sign, share)", *(f"{place}." for place in range(2, MOST_DRIVERS + 1))]
    return heading("Which GPs drive which class") + paragraph(words) + table(head, lines, kind="lines")


def _functions(facts: Facts, head: GPHead, found: GPFacts) -> str:
    panels = []
    for gp in _influential(found, MOST_FUNCTIONS):
        line = learned_function(head, facts.features, gp)
        output, weight = strongest_output(found, gp)
        towards = label(facts.outputs[output], 18)
        sign = "+" if weight > 0 else "−"
        svg = function(line, f"GP {gp}  →  {sign} {towards}", f"feature {head.gps.groups[gp][0]}", f"f{gp}")
        ends = f"{number(line.mean[0])} to {number(line.mean[-1])}"
        panels.append(Panel(svg, f"GP {gp} goes from {ends} over the range of the rows, {sign} {towards}."))
    several = max(map(len, head.gps.groups)) > 1
    held = " Other features of a GP are held at their medians." if several else ""
    caption = (
        "Read it as: what does the GP make of its feature? The band is two standard deviations, columns below "
        f"show where the test rows lie, and the title names the output that it moves most when it rises.{held}"
    )
    return figure("functions", "Learned functions of the most influential GPs", panels, caption) if panels else ""


def _kernels(facts: Facts, head: GPHead, found: GPFacts) -> str:
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
    by_gp, summed = kernels(head, facts.features[chosen], [gp for gp, _ in driven])
    panels = [Panel(kernel(summed, groups, "all GPs, as mixed", _span(summed)), "Sum over all GPs.")]
    for gp, output in driven:
        matrix, towards = by_gp[gp], label(facts.outputs[output], 18)
        svg = kernel(matrix, groups, f"GP {gp}  →  {towards}", _span(matrix))
        blocks = _blocks(matrix, [size for _, size in groups])
        panels.append(Panel(svg, f"GP {gp}, which moves {towards} most: {blocks}"))
    told = "that was asked for, by the GP that drives it most" if facts.chosen else "that its GP moves most"
    caption = (
        f"Read a pixel as: how alike are two test rows ({count(len(chosen))} of them, sorted by {by}) to the kernel on "
        "the network's features? Blue blocks on the diagonal are rows that are taken for alike, blue ones off it are "
        "what is hard to tell apart. The first matrix is the sum over all GPs, by their squared mixing weights; "
        "colours go from the smallest to the largest value of each, which stand below it. Titles name the output "
        f"{told}.{_kernel_caveat(head)}"
    )
    return figure("kernels", "Covariance of test rows under the deep kernel", panels, caption)


def _shown_drivers(facts: Facts, found: GPFacts) -> list[tuple[int, int]]:
    """Choose the GPs whose covariances are shown, each with the output that it stands for."""
    if facts.chosen:
        return [(one.gp, output) for output in facts.chosen for one in drivers(found, output, 1)]
    return [(gp, strongest_output(found, gp)[0]) for gp in _influential(found, MOST_KERNELS)]


def _span(matrix: Reals) -> str:
    low, high = float(matrix.min()), float(matrix.max())
    # Interpolation leaves a little of either sign where the kernel is zero.
    return f"{number(low if abs(low) > 1e-3 * high else 0)} to {number(high)}"


def _blocks(matrix: Reals, sizes: list[int]) -> str:
    """Say how large the covariance is within and between groups."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    same = groups[:, None] == groups
    within = number(float(matrix[same].mean()))
    if bool(same.all()):
        return f"the mean covariance is {within}."
    return f"the mean covariance is {within} within and {number(float(matrix[~same].mean()))} between groups."


def _hyperparameters(head: GPHead, found: GPFacts, shown: list[int]) -> str:
    deviations, lengthscales = found.deviations[shown], found.lengthscales[shown]
    known = np.isfinite(lengthscales)
    spread = f"{number(float(deviations.min()))} to {number(float(deviations.max()))}"
    panel = Panel(hyperparameters(deviations, lengthscales, shown), f"Prior deviations from {spread}.")
    caption = (
        "Read it as: how large is a function expected to be (deviation), and over which part of its axis does it "
        "change (lengthscale; 1 is the whole grid, of which the training rows fill the inner half)?"
        f"{_only(found, shown)}"
    )
    if has_evidence(head):
        caption += " After the held-out evidence both belong to what that stage may add to the function."
    if not known.any():
        caption += " The kernel has no lengthscale."
    return figure("hyperparameters", "Prior deviations and lengthscales", [panel], caption, wide=True)


def _grid(found: GPFacts, shown: list[int]) -> str:
    shares = [found.grid_use[gp] for gp in shown]
    used = float(np.mean([(one > 0).mean() for one in shares]))
    panel = Panel(grid_use(shares, shown), f"On average {share(used)} of the cells of a GP hold test rows.")
    caption = (
        "Read a line as: where on its grid do the test rows of a GP lie? Full cells in the middle are as they should "
        "be; one full cell in a line is a GP that sees a constant, full cells at an end are rows far outside of the "
        f"training range. Colours go with the square root of the share.{_only(found, shown)}"
    )
    return figure("grid", "Use of the grid", [panel], caption)


def _influential(found: GPFacts, most: int) -> list[int]:
    return [gp for gp in found.order[:most].tolist() if found.influence[gp] > 0]


def _only(found: GPFacts, shown: list[int]) -> str:
    left_out = len(found.order) - len(shown)
    return f" {count(left_out, 'less influential GP is', 'less influential ones are')} not drawn." * (left_out > 0)


def nearest_rows(facts: Facts) -> str:
    """Show a table of the most doubtful rows and their nearest neighbours; nothing where there is one row only."""
    predictions, gp_head = facts.predictions, facts.fitted.model.gp_head
    rows, doubtful = predictions.doubt.rows, most_doubtful(predictions)[:MOST_ROWS]
    if len(rows) < 2:
        return ""
    found = neighbours(gp_head, facts.features, np.searchsorted(rows, doubtful))
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
        "likeness is the correlation of the outputs under all GPs, by their squared mixing weights: 1 is the same, 0 "
        f"has nothing in common.{_kernel_caveat(gp_head)}"
    )
    return heading("Nearest rows under the deep kernel") + paragraph(words) + table(head, lines, [0], kind="lines")


def _kernel_caveat(head: GPHead) -> str:
    """Say, at the end of a paragraph, that the last stage has replaced the kernel, if it has."""
    words = " After the held-out evidence this is the kernel of what that stage may add to the functions."
    return words * has_evidence(head)


def _truth(predictions: Predictions, row: int) -> str:
    if isinstance(predictions, ClassPredictions):
        return label(predictions.classes[int(predictions.labels[row])])
    return ", ".join(number(float(value), 4) for value in predictions.values[row, :MOST_TARGETS])
