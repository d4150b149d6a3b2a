"""A fitted model as a module of plain operations: everything that all rows share is computed and put into tables.

    rows -> net -> bounding -> cubics of each cell -> mixing -> latent points -> average over them

No factorisation, no kernel and no posterior is left, so that other programs can run the module.
"""

import copy
from functools import singledispatch

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from svdkl.gp.additive import HeadState
from svdkl.gp.bounding import BEND, LIMIT, SLOPE, STEEPNESS, Bounding
from svdkl.gp.groups import Bank
from svdkl.gp.head import GPHead
from svdkl.gp.head_protocol import Head
from svdkl.gp.marginals import Marginals, MarginalTables
from svdkl.gp.prediction import LatentPoints, latent_points, predictive_moments, predictive_probabilities
from svdkl.model import SVDKL
from svdkl.shapes import Float, Tensor

Reals = npt.NDArray[np.float64]


class FrozenBounding(nn.Module):
    """:class:`~svdkl.gp.bounding.Bounding` by operations that every runtime has."""

    def __init__(self, bounding: Bounding) -> None:
        super().__init__()
        _keep(self, "location", bounding.location)
        _keep(self, "slope", SLOPE * torch.exp(-bounding.log_scale))

    def forward(self, h: Float[Tensor, "B Q"]) -> Float[Tensor, "B Q"]:
        """Coordinates in (-1, 1)."""
        z = torch.asinh((h - self.get_buffer("location")) * self.get_buffer("slope")) / BEND
        middle = z.clamp(-LIMIT, LIMIT)
        return middle + torch.atan((z - middle) * STEEPNESS) / STEEPNESS


class FrozenGPs(nn.Module):
    """GPs of one number of dimensions, as the tables of their marginals."""

    def __init__(self, bank: Bank, tables: MarginalTables) -> None:
        super().__init__()
        self.num_dims = len(tables.roots)
        _keep(self, "features", bank.features)
        _keep(self, "half_width", torch.tensor(bank.half_width))
        _keep(self, "centre", torch.tensor(bank.centre))
        _keep(self, "mean", tables.mean)
        for axis, roots in enumerate(tables.roots):
            _keep(self, f"roots_{axis}", roots)

    def forward(self, z: Float[Tensor, "B Q"]) -> Marginals:
        """q(f_ij) at these coordinates."""
        positions = z[:, self.get_buffer("features")] * self.get_buffer("half_width") + self.get_buffer("centre")
        roots = tuple(self.get_buffer(f"roots_{axis}") for axis in range(self.num_dims))
        return MarginalTables(self.get_buffer("mean"), roots).at(positions)


class FrozenHead(nn.Module):
    """A :class:`~svdkl.gp.head.GPHead` at its current parameters, for prediction alone."""

    def __init__(self, head: GPHead) -> None:
        super().__init__()
        with torch.no_grad():
            tables = head.state().tables
        self.bounding = FrozenBounding(head.gps.bounding)
        self.mixing, self.likelihood = copy.deepcopy(head.mixing), copy.deepcopy(head.likelihood)
        self.banks = nn.ModuleList(FrozenGPs(*pair) for pair in zip(head.gps.members(), tables, strict=True))
        _keep(self, "gp_order", head.gps.gp_order)
        _keep(self, "normal_points", head.normal_points)

    def latents(self, h: Float[Tensor, "B Q"], state: HeadState | None = None) -> LatentPoints:
        """Points that stand for q(g) of each row."""
        z = self.bounding(h.float())
        parts = [bank(z) for bank in self.banks]
        order = self.get_buffer("gp_order")
        mean, variance = (torch.cat(fields, -1)[:, order] for fields in zip(*parts, strict=True))
        return latent_points(self.likelihood, self.mixing, Marginals(mean, variance), self.get_buffer("normal_points"))


@singledispatch
def frozen(head: Head) -> Head | FrozenHead:
    """Copy a head for prediction alone, without factorisations."""
    return copy.deepcopy(head)


@frozen.register
def _(head: GPHead) -> FrozenHead:
    return FrozenHead(head)


class FrozenPredictor(nn.Module):
    """A module that predicts for encoded rows (B, ...) what the estimator predicts for them, as a tuple.

    The tuple holds class probabilities (B, C); or mean and standard deviation of the targets, in their own units and in
    float64, since the spread of a target may be small beside its mean.

    Parameters
    ----------
    model
        The estimator's model; it is copied to the CPU and left as it is.
    target_mean, target_scale
        Mean and scale of each target; None for classes.
    single_target
        Whether targets are numbers, (B,), and not rows of numbers, (B, C).
    """

    def __init__(
        self,
        model: SVDKL,
        target_mean: Reals | None = None,
        target_scale: Reals | None = None,
        single_target: bool = False,
    ) -> None:
        super().__init__()
        self.net, self.head = copy.deepcopy(model.net), frozen(model.head)
        self.single_target = single_target
        if target_mean is not None and target_scale is not None:
            _keep(self, "target_mean", torch.from_numpy(target_mean))
            _keep(self, "target_scale", torch.from_numpy(target_scale))
        self.to("cpu").eval().requires_grad_(False)

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Return the probabilities; or mean and standard deviation."""
        latents, likelihood = self.head.latents(self.net(rows)), self.head.likelihood
        if likelihood.is_classifier:
            probabilities = predictive_probabilities(likelihood, latents)
            return (probabilities / probabilities.sum(1, keepdim=True),)
        moments = predictive_moments(likelihood, latents)
        scale = self.get_buffer("target_scale")
        mean = moments.mean.double() * scale + self.get_buffer("target_mean")
        deviation = moments.variance.double().sqrt() * scale
        return (mean[:, 0], deviation[:, 0]) if self.single_target else (mean, deviation)


def _keep(module: nn.Module, name: str, value: Tensor) -> None:
    module.register_buffer(name, value.detach().clone())
