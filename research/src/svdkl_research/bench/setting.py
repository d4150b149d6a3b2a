"""The size of what is measured, and rows of that size."""

from typing import NamedTuple

import torch

from svdkl.shapes import Float, Int, Tensor

INPUTS, CLASSES = 8, 2  # of the airline task
NUM_DATA = 1_000_000  # rows that the bound is scaled to


class Setting(NamedTuple):
    """A size.

    Attributes
    ----------
    rows
        B: of a minibatch.
    gps, dims
        J GPs, each of D features.
    axis
        Inducing points along one dimension.
    """

    rows: int = 50_000
    gps: int = 2
    dims: int = 1
    axis: int = 70

    @property
    def m(self) -> int:
        """Inducing points of one GP."""
        return self.axis**self.dims

    @property
    def features(self) -> int:
        """Q: those that all GPs see together."""
        return self.gps * self.dims

    def __str__(self) -> str:
        points = f"m = {self.m:,}" if self.dims == 1 else f"m = {self.axis}^{self.dims}"
        return f"B = {self.rows:,}, J = {self.gps}, {points}"


def random_rows(setting: Setting) -> tuple[Float[Tensor, "B d"], Int[Tensor, "B"]]:
    """Inputs and labels: a step takes as long on noise as on flights."""
    return torch.randn(setting.rows, INPUTS), random_labels(setting)


def random_labels(setting: Setting) -> Int[Tensor, "B"]:
    """Labels alone, where features are given."""
    return torch.randint(CLASSES, (setting.rows,))
