"""The map from features to coordinates in (-1, 1): smooth, monotone, and the same for each row."""

import math
from typing import Any

import torch
from torch import nn

from svdkl.shapes import Float, Tensor

REACH = 4.0  # a coordinate of 1 stands for four half-ranges of the data: strange rows need places on the lattice too
BEND = 2.5  # makes the middle cosh(2.5), about six, times finer than the ends, with the data in the inner half
LIMIT = 0.95  # an arctangent takes over here, at 3.5 half-ranges: it keeps every finite feature below 1
TAIL = 0.005  # the outermost rows, 1% on both sides together, may be wild: they do not set a range alone
SPARSE = 0.05  # a feature that varies in fewer rows than this on either side shows too little of its range to set it
WIDENING = 1.0  # the outermost rows may add once the range on either side: more would squeeze all others together
SLOPE = math.sinh(BEND) / REACH  # puts REACH half-ranges at a coordinate of 1
STEEPNESS = math.pi / 2 / (1 - LIMIT)  # lets the arctangent start with slope 1 and end at 1


def _bounded(t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return coordinates, and the two tensors that their slopes are made of; the sign comes back at the end."""
    size = t.abs().mul_(SLOPE)
    # sqrt(1 + size^2), also where size^2 is more than the type holds
    root = torch.maximum(size.clamp_max(1e9).square_().add_(1).sqrt_(), size)
    half = size.mul_(0.5).add_(root, alpha=0.5)
    z = half.log_().add_(math.log(2)).mul_(1 / BEND).clamp_min_(0)  # asinh(size) / BEND
    middle = z.clamp_max(LIMIT)
    excess = z.sub_(middle).mul_(STEEPNESS)
    return middle.add_(excess.atan(), alpha=1 / STEEPNESS).copysign_(t), root, excess


class _Compress(torch.autograd.Function):
    """A hand-written :func:`compress`: torch's own asinh is not vectorised, and autograd would keep ten tensors."""

    @staticmethod
    def forward(t: Tensor) -> tuple[Tensor, Tensor]:
        """Return coordinates and their slopes."""
        bounded, root, excess = _bounded(t)
        return bounded, excess.square_().add_(1).mul_(root).reciprocal_().mul_(SLOPE / BEND)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> Tensor | None:
        if grad is None:
            return None
        t, slope = ctx.saved_tensors
        return grad * (_slope(t) if torch.is_grad_enabled() else slope)


def _slope(t: Tensor) -> Tensor:
    """Return the derivative of :func:`compress`, in operations that can be differentiated again."""
    size = SLOPE * t.abs()
    root = torch.maximum((1 + size.clamp_max(1e9).square()).sqrt(), size)
    excess = (((size / 2 + root / 2).log() + math.log(2)) / BEND - LIMIT).clamp_min(0) * STEEPNESS
    return (SLOPE / BEND) / (root * (1 + excess.square()))


def compress(t: Tensor) -> Tensor:
    """Map features in units of the data's half-range to (-1, 1): linear about zero, logarithmic far out.

    The data fill the inner half, and three times their range is still within the smooth part. Past the limit an
    arctangent takes over: twice continuously differentiable, with a slope that never vanishes.
    """
    # A custom autograd function costs 50 microseconds a call, which prediction need not pay.
    return _Compress.apply(t)[0] if torch.is_grad_enabled() and t.requires_grad else _bounded(t)[0]


def expand(z: Tensor) -> Tensor:
    """Invert :func:`compress` up to the limit, and continue smoothly beyond."""
    return torch.sinh(BEND * z) / SLOPE


def _between(h: Float[Tensor, "B Q"], share: float) -> tuple[Float[Tensor, "Q"], Float[Tensor, "Q"]]:
    """Return the values of each feature that have this share of the rows below and above them."""
    rank = int(share * (h.shape[0] - 1))
    # kthvalue, not quantile: the latter refuses large tensors.
    return h.kthvalue(1 + rank, dim=0).values, h.kthvalue(h.shape[0] - rank, dim=0).values


class Bounding(nn.Module):
    """Coordinates z_q = compress((h_q - location_q) / scale_q), with locations and scales set once from data.

    With ``learn`` they are parameters, which training moves from there; else they are buffers.
    """

    location: Tensor
    log_scale: Tensor

    def __init__(self, num_features: int, learn: bool = False) -> None:
        super().__init__()
        location, log_scale = torch.zeros(num_features), torch.zeros(num_features)
        if learn:
            self.location, self.log_scale = nn.Parameter(location), nn.Parameter(log_scale)
        else:
            self.register_buffer("location", location)
            self.register_buffer("log_scale", log_scale)

    @property
    def scale(self) -> Float[Tensor, "Q"]:
        """Half the range of each feature."""
        return self.log_scale.exp()

    @torch.no_grad()
    def set_ranges(self, h: Float[Tensor, "B Q"]) -> None:
        """Set locations and scales such that (h - location) / scale of these rows is in [-1, 1], outliers aside.

        The outermost 1% of rows may widen a range by once its length on either side: one wild row must not leave the
        rest a few grid points.
        """
        h = h.to(self.location.dtype)
        low, high = _between(h, TAIL)
        reach = WIDENING * (high - low)
        low, high = torch.maximum(h.amin(0), low - reach), torch.minimum(h.amax(0), high + reach)
        low, high = torch.where(reach > 0, low, h.amin(0)), torch.where(reach > 0, high, h.amax(0))
        half_range = (high - low) / 2
        # A unit that few rows switch on shows little of its range here: it gets at least its peers' median. A constant
        # unit without peers takes any finite range.
        low_most, high_most = _between(h, SPARSE)
        dense = high_most > low_most
        peers = half_range[dense].median() if bool(dense.any()) else torch.ones_like(half_range[0])
        half_range = torch.where(dense, half_range, torch.maximum(half_range, peers))
        self.location.copy_((high + low) / 2)
        self.log_scale.copy_(half_range.log())

    def forward(self, h: Float[Tensor, "B Q"]) -> Float[Tensor, "B Q"]:
        """Return coordinates in (-1, 1)."""
        return compress((h - self.location) * torch.exp(-self.log_scale))
