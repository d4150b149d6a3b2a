"""How the test rows lie on the lattices of the Gaussian processes."""

import numpy as np
import numpy.typing as npt

from svdkl.report.figures.canvas import Canvas, bare
from svdkl.report.figures.shades import sequential


def grid_use(shares: list[npt.NDArray[np.float64]], gps: list[int]) -> str:
    """One row a GP, one column a cell; darker cells hold more rows. Each GP's fullest cell has the full colour."""
    cells = max(map(len, shares))
    image = np.full((len(gps), cells), np.nan)
    for row, share in zip(image, shares):
        row[: len(share)] = np.sqrt(share / share.max())  # so that a few rows can be told from none
    height = float(np.clip(13 * len(gps), 60, 760))
    with Canvas(520, height + 60) as canvas:
        axes = canvas.figure.add_subplot()
        axes.imshow(sequential(image), interpolation="none", aspect="auto")
        bare(axes)
        axes.set_yticks(range(len(gps)), [str(gp) for gp in gps], fontsize=8)
        axes.set(xlabel="grid cell", ylabel="Gaussian process, by falling influence")
    return canvas.svg
