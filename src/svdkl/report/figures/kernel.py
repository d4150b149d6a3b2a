"""A covariance matrix between rows that are sorted by class or target."""

import numpy as np
import numpy.typing as npt

from svdkl.report.figures.canvas import MUTED, RULE, Canvas, bare
from svdkl.report.figures.shades import Shades, diverging, sequential


def kernel(matrix: npt.NDArray[np.float64], groups: list[tuple[str, int]], title: str, x_label: str) -> str:
    """From nothing at the smallest covariance to blue at the largest; where some are negative, those are orange.

    Groups are named runs of rows, with their sizes.
    """
    with Canvas(300, 310) as canvas:
        axes = canvas.figure.add_subplot()
        axes.imshow(_shades(matrix), interpolation="none")
        bare(axes)
        axes.spines[:].set(visible=True, color=RULE)
        axes.set_title(title, fontsize=11)
        ends = np.cumsum([size for _, size in groups])
        for end in ends[:-1].tolist():
            axes.axhline(end - 0.5, color=MUTED, linewidth=0.5, alpha=0.6)
            axes.axvline(end - 0.5, color=MUTED, linewidth=0.5, alpha=0.6)
        wide = [
            (name, float(end - size / 2 - 0.5))
            for (name, size), end in zip(groups, ends.tolist())
            if name and size >= 0.045 * len(matrix)
        ]
        axes.set_yticks([middle for _, middle in wide], [name for name, _ in wide], fontsize=9)
        axes.set_xticks([])
        axes.set_xlabel(x_label)
    return canvas.svg


def _shades(matrix: npt.NDArray[np.float64]) -> Shades:
    low, high = float(matrix.min()), float(matrix.max())
    if low < -1e-3 * high:
        return diverging(matrix / max(-low, high))
    return sequential((matrix - low) / (high - low or 1.0))
