"""A fitted model as a module of plain operations: whatever is the same for every row is computed and put in tables.

    rows -> net -> bounding -> cubics of each cell -> mixing -> latent points -> average over them

No factorisation, no kernel and no posterior is left, so that other programs can run the module.
"""

import copy
from functools import singledispatch

import torch
from torch import nn

from svdkl.estimators.fitted import Fitted
from svdkl.gp.additive import HeadState
from svdkl.gp.bounding import BEND, LIMIT, SLOPE, STEEPNESS, Bounding
from svdkl.gp.groups import Bank
from svdkl.gp.head import GPHead
from svdkl.gp.head_protocol import Head
from svdkl.gp.marginals import Marginals, MarginalTables
from svdkl.gp.prediction import LatentPoints, latent_points, predictive_moments, predictive_probabilities
from svdkl.shapes import Float, Tensor


class FrozenBounding(nn.Module):
    """A :class:`~svdkl.gp.bounding.Bounding` made of operations that every runtime has."""

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
        """Mean and variance of q(f_ij) at these coordinates."""
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
    """A copy of a fitted model on the CPU that maps encoded rows (B, ...) to their predictions, as a tuple.

    Predictions are class probabilities (B, C); or mean and standard deviation of the targets, (B,) or (B, C), in their
    own units and in float64, since the spread of a target may be small beside its mean.
    """

    def __init__(self, fitted: Fitted) -> None:
        super().__init__()
        self.net, self.head = copy.deepcopy(fitted.model.net), frozen(fitted.model.head)
        self.single_target = fitted.classes is None and fitted.reals.single
        if fitted.classes is None:
            _keep(self, "target_mean", torch.from_numpy(fitted.reals.mean))
            _keep(self, "target_scale", torch.from_numpy(fitted.reals.scale))
        self.to("cpu").eval().requires_grad_(False)

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Return probabilities; or mean and standard deviation."""
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
