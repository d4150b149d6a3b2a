"""Errors of a real target against its prediction, with the deviations that the model expects."""

import numpy as np
import numpy.typing as npt

from svdkl.report.figures.canvas import BLUE, MUTED, ORANGE, Canvas

Reals = npt.NDArray[np.float64]

POINTS = 1000  # drawn at most
BANDS = 24


def residuals(mean: Reals, residual: Reals, std: Reals, title: str, unit: str) -> str:
    """Nearly all points should lie within the band of two predicted deviations."""
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
