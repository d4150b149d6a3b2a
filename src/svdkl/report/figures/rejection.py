"""Quality of the rows that are left when doubtful ones are set aside."""

import numpy as np
import numpy.typing as npt

from svdkl.report.figures.canvas import BLUE, MUTED, ORANGE, Canvas, percent_axis

Reals = npt.NDArray[np.float64]

COLOURS = {"total uncertainty": BLUE, "epistemic uncertainty": ORANGE}
WIDTHS = {"total uncertainty": 3.5, "epistemic uncertainty": 1.6}  # so that one line on another leaves both visible


def rejection(curves: list[tuple[str, Reals, Reals]], y_label: str, shares: bool, title: str = "") -> str:
    """Lines that rise (accuracy) or fall (errors) mean that doubt points at mistakes; the level line is chance."""
    with Canvas(480, 370) as canvas:
        axes = canvas.figure.add_subplot()
        start = float(curves[0][2][0])
        axes.axhline(start, color=MUTED, linewidth=1, label="random order")
        for name, rejected, quality in curves:
            known = name in COLOURS
            axes.plot(
                rejected,
                quality,
                color=COLOURS.get(name, MUTED),
                linewidth=WIDTHS.get(name, 1.0),
                linestyle="-" if known else (0, (4, 3)),
                marker="o" if len(rejected) == 1 else "",
                label=name,
            )
        axes.set(xlabel="rows set aside, the most uncertain first", ylabel=y_label, xlim=(0, 1))
        percent_axis(axes, "x")
        if shares:
            lowest = min(float(quality.min()) for _, _, quality in curves)
            axes.set_ylim(max(0.0, lowest - 0.1 * (1 - lowest)) if lowest < 1 else 0.0, 1.0 + 0.04 * (1 - lowest))
            percent_axis(axes, "y")
        else:
            axes.set_ylim(bottom=0)
        axes.set_title(title)
        canvas.figure.legend(loc="outside lower center", ncols=2)
    return canvas.svg
