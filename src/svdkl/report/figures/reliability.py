"""Predicted against observed shares: probabilities of classes, or levels of intervals."""

import numpy as np
import numpy.typing as npt

from svdkl.report.figures.canvas import BLUE, INK, MUTED, Canvas, percent_axis

Reals = npt.NDArray[np.float64]


def reliability(
    predicted: Reals,
    observed: Reals,
    low: Reals,
    high: Reals,
    counts: Reals | None,
    title: str,
    x_label: str,
    y_label: str,
) -> str:
    """Points on the diagonal are calibrated; bars show what chance allows; with counts, columns show where rows are."""
    with Canvas(330, 360 if counts is not None else 320) as canvas:
        if counts is None:
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
        axes.vlines(predicted, low, high, color=MUTED, linewidth=5, alpha=0.25)
        sizes = np.full(len(predicted), 34.0) if counts is None else 16 + 90 * counts / counts.max()
        inside = (observed >= low) & (observed <= high)
        for chosen, fill in ((inside, BLUE), (~inside, "none")):
            points = axes.scatter(predicted[chosen], observed[chosen], s=sizes[chosen], color=fill, zorder=3)
            points.set(edgecolor=BLUE, linewidth=1.5)
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), ylabel=y_label)
        percent_axis(axes, "x")
        percent_axis(axes, "y")
        axes.set_title(title, color=INK)
    return canvas.svg
