"""Which classes are taken for which, as a heat map."""

import numpy as np
import numpy.typing as npt

from svdkl.report.figures.canvas import INK, RULE, Canvas, bare
from svdkl.report.figures.shades import sequential

WRITTEN = 12  # classes up to which the cells hold numbers,
NAMED = 40  # and the axes names


def confusion(matrix: npt.NDArray[np.int64], classes: list[str]) -> str:
    """Shades are shares of the true class's rows; numbers are rows."""
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
