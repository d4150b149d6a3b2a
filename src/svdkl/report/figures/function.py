"""One learned function, with its uncertainty."""

import numpy as np
import numpy.typing as npt

from svdkl.report.figures.canvas import BLUE, MUTED, Canvas

Reals = npt.NDArray[np.float64]


def function(feature: Reals, mean: Reals, std: Reals, rows: Reals, title: str, x_label: str, y_label: str) -> str:
    """The mean with a band of two deviations; columns at the bottom show where the rows lie."""
    with Canvas(325, 250) as canvas:
        axes = canvas.figure.add_subplot()
        axes.fill_between(feature, mean - 2 * std, mean + 2 * std, color=BLUE, alpha=0.2)
        axes.plot(feature, mean, color=BLUE)
        axes.set(xlabel=x_label, ylabel=y_label, xlim=(feature[0], feature[-1]))
        axes.set_title(title, fontsize=11)
        counts, edges = np.histogram(rows, bins=40, range=(feature[0], feature[-1]))
        if counts.any():
            heights = counts / counts.max() / 6  # of the axes
            place = axes.get_xaxis_transform()
            axes.stairs(heights, edges, fill=True, color=MUTED, alpha=0.35, transform=place)
    return canvas.svg
