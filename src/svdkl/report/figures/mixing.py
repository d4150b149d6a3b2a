"""The mixing matrix A: which Gaussian process pushes which output, and which way."""

import numpy as np
import numpy.typing as npt

from svdkl.report.figures.canvas import Canvas, bare
from svdkl.report.figures.shades import diverging


def mixing(weights: npt.NDArray[np.float64], outputs: list[str], gps: list[int], x_label: str) -> str:
    """Outputs (rows) by GPs (columns); blue is positive, orange negative, strong colours are large weights."""
    longest = max(map(len, outputs))
    num_outputs, num_gps = weights.shape
    width = float(np.clip(14.5 * num_gps, 260, 800)) + 40 + 5.5 * longest
    row = float(np.clip(26 if num_outputs <= 12 else 16, 12, 26))
    with Canvas(width, row * num_outputs + 60) as canvas:
        axes = canvas.figure.add_subplot()
        most = float(np.abs(weights).max()) or 1.0
        axes.imshow(diverging(weights / most), interpolation="none", aspect="auto")
        bare(axes)
        axes.set_xticks(range(num_gps), [str(gp) for gp in gps], fontsize=8, rotation=0 if max(gps) < 100 else 90)
        axes.set_yticks(range(num_outputs), outputs)
        axes.set_xlabel(x_label)
    return canvas.svg
