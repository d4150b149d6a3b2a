"""Errors of rows in bins of uncertainty, observed and expected."""

import numpy as np
import numpy.typing as npt

from svdkl.report.figures.canvas import BLUE, ORANGE, Canvas, percent_axis

Reals = npt.NDArray[np.float64]


def errors_by_doubt(
    error: Reals, low: Reals, high: Reals, expected: Reals, x_label: str, y_label: str, shares: bool
) -> str:
    """Columns should rise from left to right, and end at the dashes, which the model expects."""
    with Canvas(430, 330) as canvas:
        axes = canvas.figure.add_subplot()
        width = 1 / len(error)
        middle = (np.arange(len(error)) + 0.5) * width
        axes.bar(middle, error, 0.8 * width, color=BLUE, alpha=0.55, label="observed, with 95 % interval")
        axes.vlines(middle, low, high, color=BLUE, linewidth=1.5)
        half = 0.4 * width
        axes.hlines(expected, middle - half, middle + half, color=ORANGE, linewidth=2.5, label="expected by the model")
        axes.set(xlabel=x_label, ylabel=y_label, xlim=(0, 1))
        axes.set_ylim(bottom=0)
        percent_axis(axes, "x")
        if shares:
            percent_axis(axes, "y")
        axes.xaxis.grid(False)
        canvas.figure.legend(loc="outside lower center", ncols=2)
    return canvas.svg
