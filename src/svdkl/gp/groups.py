"""Which features each GP sees: Q features in J groups, and the bank of all GPs whose groups are of one size."""

from collections.abc import Sequence
from numbers import Integral

import torch
from torch import nn

from svdkl.gp.grid import MIN_POINTS
from svdkl.gp.lattice_gps import LatticeGPs
from svdkl.shapes import Float, Tensor

Groups = tuple[tuple[int, ...], ...]


def make_groups(num_features: int, dims_per_gp: int = 1, groups: Sequence[Sequence[int]] | None = None) -> Groups:
    """Check the given groups, or make consecutive groups of ``dims_per_gp`` features."""
    if groups is None:
        if not 1 <= dims_per_gp <= num_features or num_features % dims_per_gp:
            raise ValueError(
                f"Expected dims_per_gp to divide the {num_features} features, got {dims_per_gp}: choose a divisor, or "
                f"name the groups yourself with groups=[(0, 1), ...]."
            )
        starts = range(0, num_features, dims_per_gp)
        return tuple(tuple(range(start, start + dims_per_gp)) for start in starts)
    if len(groups) == 0:
        raise ValueError("Expected at least one group of features, got none.")
    for group in groups:
        if not isinstance(group, Sequence) or not all(isinstance(feature, Integral) for feature in group):
            raise ValueError(f"Expected groups of feature numbers, such as [(0,), (1, 2)], got {group!r} among them.")
        if len(group) == 0:
            raise ValueError("Expected each group to name at least one feature, got an empty group.")
        if len(set(group)) != len(group):
            raise ValueError(f"Expected each group to name a feature once, got {tuple(group)}.")
        for feature in group:
            if not 0 <= feature < num_features:
                raise ValueError(
                    f"Expected groups of features 0 to {num_features - 1}, got {tuple(group)}, which names feature "
                    f"{feature}."
                )
    return tuple(tuple(int(feature) for feature in group) for group in groups)


class Bank(nn.Module):
    """GPs on one lattice, and which features each of them sees."""

    def __init__(self, gps: LatticeGPs, groups: Sequence[tuple[int, ...]], num_features: int) -> None:
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
        """Turn coordinates in (-1, 1) into positions in grid points."""
        # Where each feature has its own GP, a plain view: indexing would cost as much as all the rest.
        chosen = z.unsqueeze(-1) if self.one_each else z[:, self.features]
        if self.axes_alike:  # numbers, since to make tensors of them takes as long as the product
            return chosen * self.half_width[0] + self.centre[0]
        return chosen * z.new_tensor(self.half_width) + z.new_tensor(self.centre)


def lattice_sizes(grid_size: int | Sequence[int], num_dims: int) -> tuple[int, ...]:
    """Check m_1, ..., m_D, given as one number for all axes or as one for each."""
    sizes = tuple(grid_size) if isinstance(grid_size, Sequence) else (grid_size,) * num_dims
    if not all(isinstance(size, Integral) for size in sizes):
        raise ValueError(f"Expected whole numbers of grid points, got {grid_size!r}.")
    if len(sizes) != num_dims:
        raise ValueError(
            f"Expected one grid size or {num_dims} (one an axis) for GPs of {num_dims} features, got {len(sizes)}."
        )
    if min(sizes) < MIN_POINTS:
        raise ValueError(
            f"Expected a grid of at least {MIN_POINTS} points an axis, got {min(sizes)}: cubic interpolation reads "
            f"{MIN_POINTS} neighbours."
        )
    return tuple(int(size) for size in sizes)
