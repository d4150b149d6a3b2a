"""Drawings of the predictions' quality: confusions, calibration, errors, and what uncertainty is worth."""

import numpy as np
import numpy.typing as npt

from svdkl.report.facts.doubt import Binned, Curve
from svdkl.report.facts.predictions import Reals
from svdkl.report.facts.scores import Reliability
from svdkl.report.figures.canvas import BLUE, INK, MUTED, ORANGE, RULE, Canvas, bare, percent_axis, sequential

WRITTEN = 12  # classes of a confusion matrix whose cells are wide enough for numbers
NAMED = 40  # classes of a confusion matrix whose names do not overlap
POINTS = 1000  # dots: more would hide each other and make the page heavy
BANDS = 24  # steps of the band of expected deviations, which then looks smooth
COLOURS = {"total uncertainty": BLUE, "epistemic uncertainty": ORANGE}
WIDTHS = {"total uncertainty": 3.5, "epistemic uncertainty": 1.6}  # so that one line on another leaves both visible


def confusion(matrix: npt.NDArray[np.int64], classes: list[str]) -> str:
    """Draw which classes are taken for which: shades are shares of the true class, numbers count rows."""
    size = len(classes)
    named = size <= NAMED
    longest = max(map(len, classes)) if named else 0
    upright = size > 4 and longest > 3
    side = float(np.clip(36 * size, 200, 520))
    with Canvas(side + 60 + 5.5 * longest, side + 60 + (5.5 * longest if upright else 0)) as canvas:
        axes = canvas.figure.add_subplot()
        totals = matrix.sum(1, keepdims=True)
        shares = matrix / np.maximum(totals, 1)
        axes.imshow(sequential(shares), interpolation="none")
        bare(axes)
        axes.spines[:].set(visible=True, color=RULE)
        axes.set(xlabel="prediction", ylabel="truth")
        if named:
            axes.set_xticks(range(size), classes, rotation=90 if upright else 0)
            axes.set_yticks(range(size), classes)
        if size <= WRITTEN:
            for true, said in np.argwhere(matrix > 0).tolist():
                colour = "white" if shares[true, said] > 0.5 else INK
                axes.text(said, true, f"{matrix[true, said]:,}", ha="center", va="center", color=colour)
    return canvas.svg


def reliability(found: Reliability, title: str, x_label: str, y_label: str, counted: bool) -> str:
    """Draw observed against predicted shares, with bars of what chance allows and, if wanted, columns of the counts."""
    predicted, observed, counts = found.predicted, found.observed, found.counts
    with Canvas(330, 360 if counted else 320) as canvas:
        if not counted:
            axes = canvas.figure.add_subplot()
            axes.set_xlabel(x_label)
        else:
            axes, below = canvas.figure.subplots(2, 1, height_ratios=(5, 1))
            below.bar(predicted, counts / counts.sum(), width=0.045, color=BLUE, alpha=0.55)
            below.set(xlim=(-0.03, 1.03), xlabel=x_label, ylabel="rows")
            below.yaxis.set_ticks([])
            below.grid(False)
            percent_axis(below, "x")
            axes.tick_params(labelbottom=False)
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axes.vlines(predicted, found.low, found.high, color=MUTED, linewidth=5, alpha=0.25)
        sizes = 16 + 90 * counts / counts.max() if counted else np.full(len(predicted), 34.0)
        inside = (observed >= found.low) & (observed <= found.high)
        for chosen, fill in ((inside, BLUE), (~inside, "none")):
            points = axes.scatter(predicted[chosen], observed[chosen], s=sizes[chosen], color=fill, zorder=3)
            points.set(edgecolor=BLUE, linewidth=1.5)
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), ylabel=y_label)
        percent_axis(axes, "x")
        percent_axis(axes, "y")
        axes.set_title(title, color=INK)
    return canvas.svg


def residuals(mean: Reals, residual: Reals, std: Reals, title: str, unit: str) -> str:
    """Draw errors against predictions, with a band of two predicted deviations, which should hold nearly all."""
    with Canvas(480, 360) as canvas:
        axes = canvas.figure.add_subplot()
        order = np.argsort(mean, kind="stable")
        parts = np.array_split(order, min(BANDS, max(1, len(order) // 10)))
        x = np.array([mean[order[0]], *(mean[part].mean() for part in parts), mean[order[-1]]])
        band = np.array([np.sqrt(np.mean(std[part] ** 2)) for part in parts])
        band = 2 * np.array([band[0], *band, band[-1]])
        axes.fill_between(x, -band, band, color=BLUE, alpha=0.16, label="two predicted deviations")
        axes.axhline(0, color=MUTED, linewidth=1)
        some = np.arange(len(mean))[:: max(1, -(-len(mean) // POINTS))]
        outside = np.abs(residual[some]) > 2 * std[some]
        for chosen, colour in ((some[~outside], BLUE), (some[outside], ORANGE)):
            axes.plot(mean[chosen], residual[chosen], "o", color=colour, markersize=3.5, alpha=0.55, markeredgewidth=0)
        axes.set(xlabel=f"predicted {unit}", ylabel="truth minus prediction")
        axes.set_title(title)
        canvas.figure.legend(loc="outside lower center")
    return canvas.svg


def draw_rejection(curves: list[Curve], y_label: str, shares: bool, title: str) -> str:
    """Draw the quality of the rest as doubtful rows are set aside; the level line is chance."""
    with Canvas(480, 370) as canvas:
        axes = canvas.figure.add_subplot()
        axes.axhline(float(curves[0].y[0]), color=MUTED, linewidth=1, label="random order")
        for curve in curves:
            axes.plot(
                curve.x,
                curve.y,
                color=COLOURS.get(curve.name, MUTED),
                linewidth=WIDTHS.get(curve.name, 1.0),
                linestyle="-" if curve.name in COLOURS else (0, (4, 3)),
                marker="o" if len(curve.x) == 1 else "",
                label=curve.name,
            )
        axes.set(xlabel="rows set aside, the most uncertain first", ylabel=y_label, xlim=(0, 1))
        percent_axis(axes, "x")
        if shares:
            lowest = min(float(curve.y.min()) for curve in curves)
            axes.set_ylim(max(0.0, lowest - 0.1 * (1 - lowest)) if lowest < 1 else 0.0, 1.0 + 0.04 * (1 - lowest))
            percent_axis(axes, "y")
        else:
            axes.set_ylim(bottom=0)
        axes.set_title(title)
        canvas.figure.legend(loc="outside lower center", ncols=2)
    return canvas.svg


def errors_by_doubt(found: Binned, x_label: str, y_label: str, shares: bool) -> str:
    """Draw observed errors as columns, by rising uncertainty, with dashes where the model expects them to end."""
    with Canvas(430, 330) as canvas:
        axes = canvas.figure.add_subplot()
        width = 1 / len(found.error)
        middle, half = (np.arange(len(found.error)) + 0.5) * width, 0.4 * width
        axes.bar(middle, found.error, 0.8 * width, color=BLUE, alpha=0.55, label="observed, with 95 % interval")
        axes.vlines(middle, found.low, found.high, color=BLUE, linewidth=1.5)
        ends = middle - half, middle + half
        axes.hlines(found.expected, *ends, color=ORANGE, linewidth=2.5, label="expected by the model")
        axes.set(xlabel=x_label, ylabel=y_label, xlim=(0, 1))
        axes.set_ylim(bottom=0)
        percent_axis(axes, "x")
        if shares:
            percent_axis(axes, "y")
        axes.xaxis.grid(False)
        canvas.figure.legend(loc="outside lower center", ncols=2)
    return canvas.svg
