"""A measure against the number of training rows."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from svdkl.report.figures.canvas import BLUE, GREEN, MUTED, ORANGE, RED, Canvas, plain_log_axis

Reals = npt.NDArray[np.float64]


class SizeCurve(NamedTuple):
    """Means and standard deviations of one model, by training rows."""

    name: str
    rows: Reals
    means: Reals
    spreads: Reals


def scaling(curves: list[SizeCurve], level: tuple[str, float] | None, y_label: str, log: bool) -> str:
    """Draw a line for each model, and a dashed level for a model that was trained on all rows only."""
    with Canvas(480, 370) as canvas:
        axes = canvas.figure.add_subplot()
        for curve, colour in zip(curves, (BLUE, ORANGE, GREEN, RED)):
            axes.errorbar(
                curve.rows, curve.means, curve.spreads, color=colour, marker="o", markersize=5, label=curve.name
            )
        if level is not None:
            axes.axhline(level[1], color=MUTED, linewidth=1.2, linestyle=(0, (4, 3)), label=f"{level[0]}, all rows")
        plain_log_axis(axes, "x")
        rows = np.unique(np.concatenate([curve.rows for curve in curves]))
        axes.set_xticks(rows, [f"{count:,.0f}" for count in rows])
        if log:
            plain_log_axis(axes, "y")
        axes.set(xlabel="training rows", ylabel=y_label)
        canvas.figure.legend(loc="outside lower center", ncols=3)
    return canvas.svg
