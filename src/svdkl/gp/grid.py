"""The lattice on which the inducing points lie."""

from dataclasses import dataclass

import torch

from svdkl.shapes import Float, Tensor

MIN_POINTS = 4  # cubic interpolation reads four neighbours


@dataclass(frozen=True)
class Grid:
    """A regular lattice of D axes on the unit cube, and how much of it stays free of data.

    Positions on an axis are measured in grid points, from 0 to m_d - 1; lengthscales in units of the axis. A margin of
    one spacing (the default) keeps all data in cells with two neighbours on both sides. A ring needs more, so that the
    two ends of the data do not meet.
    """

    sizes: tuple[int, ...]  # m_1, ..., m_D
    margin: tuple[float, ...] | None = None  # free grid spacings at either end of each axis

    @property
    def num_dims(self) -> int:
        """Number of axes, D."""
        return len(self.sizes)

    def distances(self, axis: int, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "m_d"]:
        """Return the distances of the points of an axis from its first point: 0, ..., 1."""
        size = self.sizes[axis]
        return torch.arange(size, dtype=dtype, device=device) / (size - 1)

    def interior(self, axis: int) -> tuple[float, float]:
        """Return the lowest and the highest position that data take on an axis, in grid points."""
        margin = self.margin[axis] if self.margin is not None else 1.0
        # A lattice of four points has a single inner cell; data fill it to its ends.
        margin = min(margin, (self.sizes[axis] - 2) / 2)
        return margin, self.sizes[axis] - 1 - margin
