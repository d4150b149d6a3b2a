"""Features into the open interval (-1, 1): smoothly, monotonically, each row on its own."""

import math

import torch
from torch import nn

from svdkl.shapes import Float, Tensor

LINEAR = 0.9  # the coordinate up to which the map is linear, on either side
TYPICAL = 0.5  # the coordinate that the edge of the data is put at when the ranges are set
TAIL = 0.005  # the share of rows on either side that count as the outermost
SPARSE = 0.05  # a feature that is constant but for this share of rows on either side is called sparse
WIDENING = 1.0  # how far these may widen a range on either side, in its own lengths


def squash(t: Tensor) -> Tensor:
    """Identity up to +-LINEAR, then bending towards +-1 as an arctangent does; twice continuously differentiable.

    The slope falls like 1 / t^2 only, so even a feature that is ten million scales off keeps a gradient.
    """
    middle = t.clamp(-LINEAR, LINEAR)
    steepness = math.pi / 2 / (1 - LINEAR)
    return middle + torch.atan((t - middle) * steepness) / steepness


def _between(h: Float[Tensor, "B Q"], share: float) -> tuple[Float[Tensor, "Q"], Float[Tensor, "Q"]]:
    """The values that leave this share of the rows below and above them."""
    rank = int(share * (h.shape[0] - 1))
    # kthvalue, not quantile: the latter refuses large tensors.
    return h.kthvalue(1 + rank, dim=0).values, h.kthvalue(h.shape[0] - rank, dim=0).values


class Bounding(nn.Module):
    """z_q = squash((h_q - location_q) / scale_q), with locations and scales set once from data.

    Parameters
    ----------
    num_features
        Q.
    learn
        Whether locations and scales are parameters, learned from where the data put them, or buffers.
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
        """Units of a feature that make one unit of the coordinate."""
        return self.log_scale.exp()

    @torch.no_grad()
    def set_ranges(self, h: Float[Tensor, "B Q"]) -> None:
        """Set locations and scales so that these rows fill the inner half of the interval, outliers aside.

        The outermost 1% of rows may widen a range by once its length on either side, no more: one wild row must not
        leave the rest a few grid points.
        """
        h = h.to(self.location.dtype)
        low, high = _between(h, TAIL)
        reach = WIDENING * (high - low)
        low, high = torch.maximum(h.amin(0), low - reach), torch.minimum(h.amax(0), high + reach)
        low, high = torch.where(reach > 0, low, h.amin(0)), torch.where(reach > 0, high, h.amax(0))
        half_range = (high - low) / 2
        # A unit that few rows switch on shows little of its range here: it gets at least that of its peers. One that is
        # constant and has no peers takes any finite range.
        low_most, high_most = _between(h, SPARSE)
        dense = high_most > low_most
        peers = half_range[dense].median() if bool(dense.any()) else torch.ones_like(half_range[0])
        half_range = torch.where(dense, half_range, torch.maximum(half_range, peers))
        scale = half_range / TYPICAL
        self.location.copy_((high + low) / 2)
        self.log_scale.copy_(scale.log())

    def forward(self, h: Float[Tensor, "B Q"]) -> Float[Tensor, "B Q"]:
        """Coordinates in (-1, 1)."""
        return squash((h - self.location) * torch.exp(-self.log_scale))
