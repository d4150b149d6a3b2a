"""The size of what is measured, and rows of that size."""

from typing import NamedTuple

import torch

from svdkl.shapes import Float, Int, Tensor

INPUTS, CLASSES = 8, 2  # as in the paper's airline task
NUM_DATA = 1_000_000  # rows of the data set that the bound is scaled to; it changes no time


class Setting(NamedTuple):
    """The size of a measured step.

    Attributes
    ----------
    rows
        Number B of rows in a minibatch.
    gps, dims
        Number J of GPs, and number D of features that each of them sees.
    axis
        Number of inducing points along one dimension.
    """

    rows: int = 50_000
    gps: int = 2
    dims: int = 1
    axis: int = 70

    @property
    def m(self) -> int:
        """Number of inducing points of one GP."""
        return self.axis**self.dims

    @property
    def features(self) -> int:
        """Number Q of features that all GPs see together."""
        return self.gps * self.dims

    def __str__(self) -> str:
        points = f"m = {self.m:,}" if self.dims == 1 else f"m = {self.axis}^{self.dims}"
        return f"B = {self.rows:,}, J = {self.gps}, {points}"


def random_rows(setting: Setting) -> tuple[Float[Tensor, "B d"], Int[Tensor, "B"]]:
    """Draw inputs and labels from noise, on which a step takes as long as on flights."""
    return torch.randn(setting.rows, INPUTS), random_labels(setting)


def random_labels(setting: Setting) -> Int[Tensor, "B"]:
    """Draw the labels of a minibatch."""
    return torch.randint(CLASSES, (setting.rows,))
