"""GPs of one number of dimensions in a head, and how they read its features."""

from collections.abc import Sequence
from numbers import Integral

import torch
from torch import nn

from svdkl.grid import Grid
from svdkl.inducing.gps import GridGPs
from svdkl.shapes import Float, Tensor


class Bank(nn.Module):
    """GPs on one lattice, and which features each of them sees."""

    def __init__(self, gps: GridGPs, groups: Sequence[tuple[int, ...]], num_features: int) -> None:
        super().__init__()
        self.gps = gps
        self.register_buffer("features", torch.tensor(groups), persistent=False)
        self.features: Tensor
        self.one_each = torch.equal(self.features, torch.arange(num_features).unsqueeze(-1))
        bounds = [gps.grid.interior(axis) for axis in range(gps.grid.num_dims)]
        self.centre = [(low + high) / 2 for low, high in bounds]
        self.half_width = [(high - low) / 2 for low, high in bounds]
        self.axes_alike = len(set(bounds)) == 1

    def positions(self, z: Float[Tensor, "B Q"]) -> Float[Tensor, "B J D"]:
        """From coordinates in (-1, 1) to positions in grid points."""
        # Where each feature has its own GP, a plain view: indexing would cost as much as all the rest.
        chosen = z.unsqueeze(-1) if self.one_each else z[:, self.features]
        if self.axes_alike:  # numbers, since to make tensors of them takes as long as the product
            return chosen * self.half_width[0] + self.centre[0]
        return chosen * z.new_tensor(self.half_width) + z.new_tensor(self.centre)


def lattice_sizes(grid_size: int | Sequence[int], num_dims: int) -> tuple[int, ...]:
    """m_1, ..., m_D from one number or one an axis, checked."""
    sizes = tuple(grid_size) if isinstance(grid_size, Sequence) else (grid_size,) * num_dims
    if not all(isinstance(size, Integral) for size in sizes):
        raise ValueError(f"Expected whole numbers of grid points, got {grid_size!r}.")
    if len(sizes) != num_dims:
        raise ValueError(
            f"Expected one grid size or {num_dims} (one an axis) for GPs of {num_dims} features, got {len(sizes)}."
        )
    return Grid(tuple(int(size) for size in sizes)).sizes
