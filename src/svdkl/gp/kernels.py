"""Stationary kernels on the axes of a lattice; each of J GPs has its own hyperparameters.

A kernel of D dimensions is the product of one kernel an axis, k(x, x') = variance * prod_d k_d(|x_d - x'_d|), so that
the prior's covariance is a Kronecker product. For the RBF that is the usual kernel with a lengthscale for each
dimension. Distances are in units of the axis: the lattice spans 0 to 1.
"""

import copy
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from svdkl.errors import first_line
from svdkl.shapes import Float, Tensor

DEFAULT_LENGTHSCALE = 0.2  # at the start: shorter ones fit noise, longer ones learn detail slowly


class AxisKernel(nn.Module, ABC):
    """The correlation along one axis as a function of distance, for J GPs at once."""

    decays = True  # whether it falls exponentially, so that its sum around a ring converges

    @abstractmethod
    def forward(self, distance: Float[Tensor, "m"]) -> Float[Tensor, "J m"]:
        """Return correlations at these distances, in the distances' precision."""


class LengthscaleKernel(AxisKernel):
    """A correlation that is a fixed shape of distance / lengthscale."""

    def __init__(self, num_gps: int, lengthscale: float = DEFAULT_LENGTHSCALE) -> None:
        super().__init__()
        self.log_lengthscale = nn.Parameter(torch.full((num_gps,), math.log(lengthscale)))

    @property
    def lengthscale(self) -> Float[Tensor, "J"]:
        """Lengthscale of each GP, in units of the axis."""
        return self.log_lengthscale.exp()

    def forward(self, distance: Float[Tensor, "m"]) -> Float[Tensor, "J m"]:
        """Return the correlations shape(distance / lengthscale)."""
        return self.shape(distance / self.log_lengthscale.to(distance.dtype).exp()[:, None])

    @abstractmethod
    def shape(self, r: Float[Tensor, "J m"]) -> Float[Tensor, "J m"]:
        """Return the correlation at a distance of ``r`` lengthscales."""


class RBF(LengthscaleKernel):
    """The kernel exp(-r^2 / 2)."""

    def shape(self, r: Float[Tensor, "J m"]) -> Float[Tensor, "J m"]:
        """Return exp(-r^2 / 2)."""
        return torch.exp(-0.5 * r.square())


class Matern12(LengthscaleKernel):
    """The kernel exp(-r)."""

    def shape(self, r: Float[Tensor, "J m"]) -> Float[Tensor, "J m"]:
        """Return exp(-r)."""
        return torch.exp(-r)


class Matern32(LengthscaleKernel):
    """The kernel (1 + s) exp(-s), s = sqrt(3) r."""

    def shape(self, r: Float[Tensor, "J m"]) -> Float[Tensor, "J m"]:
        """Return (1 + s) exp(-s)."""
        s = math.sqrt(3) * r
        return (1 + s) * torch.exp(-s)


class Matern52(LengthscaleKernel):
    """The kernel (1 + s + s^2 / 3) exp(-s), s = sqrt(5) r."""

    def shape(self, r: Float[Tensor, "J m"]) -> Float[Tensor, "J m"]:
        """Return (1 + s + s^2 / 3) exp(-s)."""
        s = math.sqrt(5) * r
        return (1 + s + s.square() / 3) * torch.exp(-s)


class RationalQuadratic(LengthscaleKernel):
    """The kernel (1 + r^2 / (2 alpha))^-alpha: a mixture of RBFs of many lengthscales."""

    decays = False  # it falls only as a power of the distance

    def __init__(self, num_gps: int, lengthscale: float = DEFAULT_LENGTHSCALE, alpha: float = 2.0) -> None:
        super().__init__(num_gps, lengthscale)
        self.log_alpha = nn.Parameter(torch.full((num_gps,), math.log(alpha)))

    def shape(self, r: Float[Tensor, "J m"]) -> Float[Tensor, "J m"]:
        """Return (1 + r^2 / (2 alpha))^-alpha."""
        alpha = self.log_alpha.to(r.dtype).exp()[:, None]
        return torch.exp(-alpha * torch.log1p(r.square() / (2 * alpha)))


class Periodic(AxisKernel):
    """The kernel exp(-2 sin^2(pi d / period) / lengthscale^2)."""

    decays = False  # it comes back after every period

    def __init__(self, num_gps: int, lengthscale: float = 0.5, period: float = 0.5) -> None:
        super().__init__()
        self.log_lengthscale = nn.Parameter(torch.full((num_gps,), math.log(lengthscale)))
        self.log_period = nn.Parameter(torch.full((num_gps,), math.log(period)))

    def forward(self, distance: Float[Tensor, "m"]) -> Float[Tensor, "J m"]:
        """Return exp(-2 sin^2(pi d / period) / lengthscale^2)."""
        period = self.log_period.to(distance.dtype).exp()[:, None]
        lengthscale = self.log_lengthscale.to(distance.dtype).exp()[:, None]
        return torch.exp(-2 * (torch.sin(math.pi * distance / period) / lengthscale).square())


class SpectralMixture(AxisKernel):
    """The kernel sum_s w_s exp(-2 pi^2 d^2 v_s^2) cos(2 pi d mu_s): Gaussians in frequency, whose w_s sum to 1."""

    def __init__(self, num_gps: int, num_mixtures: int = 4, lengthscale: float = DEFAULT_LENGTHSCALE) -> None:
        super().__init__()
        # Frequencies from a slow trend upwards; bandwidths such that each component starts with this lengthscale.
        frequencies = torch.arange(1, num_mixtures + 1).float() - 0.5
        bandwidth = 1 / (2 * math.pi * lengthscale)
        self.weight_logits = nn.Parameter(torch.zeros(num_gps, num_mixtures))
        self.log_frequency = nn.Parameter(frequencies.log().repeat(num_gps, 1))
        self.log_bandwidth = nn.Parameter(torch.full((num_gps, num_mixtures), math.log(bandwidth)))

    def forward(self, distance: Float[Tensor, "m"]) -> Float[Tensor, "J m"]:
        """Return sum_s w_s exp(-2 pi^2 d^2 v_s^2) cos(2 pi d mu_s)."""
        weight = self.weight_logits.to(distance.dtype).softmax(-1).unsqueeze(-1)
        angle = 2 * math.pi * distance * self.log_frequency.to(distance.dtype).exp().unsqueeze(-1)
        spread = 2 * math.pi * distance * self.log_bandwidth.to(distance.dtype).exp().unsqueeze(-1)
        return (weight * torch.exp(-0.5 * spread.square()) * torch.cos(angle)).sum(-2)


class GPyTorchKernel(AxisKernel):
    """A stationary gpytorch kernel on one axis, with hyperparameters and scales of its own for each axis."""

    decays = False  # we do not know it of a foreign kernel

    def __init__(self, kernel: nn.Module, num_gps: int) -> None:
        super().__init__()
        wanted = torch.Size([num_gps])
        given: Any = kernel
        if not given.is_stationary:
            raise ValueError(
                f"Expected a stationary gpytorch kernel, got {type(kernel).__name__}: the inducing points lie on a "
                f"regular grid, where only a function of distance gives a Toeplitz matrix."
            )
        if given.batch_shape not in (wanted, torch.Size([])):
            raise ValueError(
                f"Expected a gpytorch kernel with batch_shape [{num_gps}] (one set of hyperparameters for each GP) or "
                f"[] (copied for each), got {list(given.batch_shape)}."
            )
        self.kernel = given if given.batch_shape == wanted else given.expand_batch(wanted)
        for parameter in self.kernel.parameters():  # expanding repeats one number; each GP needs its own
            parameter.data = parameter.data.clone()
        try:
            shape = self(torch.zeros(2)).shape
        except (RuntimeError, ValueError, TypeError) as error:
            raise ValueError(
                f"Expected a gpytorch kernel of one dimension, got {type(kernel).__name__}, which cannot be evaluated "
                f"on one axis ({first_line(error)}): leave out ard_num_dims and active_dims, and give sums "
                f"and products the batch_shape [{num_gps}]."
            ) from error
        if shape != (num_gps, 2):
            raise ValueError(f"Expected the gpytorch kernel to give {num_gps} x 2 correlations, got {tuple(shape)}.")

    def forward(self, distance: Float[Tensor, "m"]) -> Float[Tensor, "J m"]:
        """Return the covariances between the first point and all points."""
        x = distance.unsqueeze(-1)
        return self.kernel(x[:1], x).to_dense().squeeze(-2)


class SeparableKernel(nn.Module):
    """The kernel variance * prod_d k_d, for J GPs of D dimensions."""

    def __init__(self, axes: Sequence[AxisKernel], num_gps: int) -> None:
        super().__init__()
        self.axes = nn.ModuleList(axes)
        self.log_variance = nn.Parameter(torch.zeros(num_gps))

    @property
    def variance(self) -> Float[Tensor, "J"]:
        """Prior variance of each GP."""
        return self.log_variance.exp()

    def column(self, axis: int, distance: Float[Tensor, "m"]) -> Float[Tensor, "J m"]:
        """Return the first column of an axis' covariance factor; the variance is in the first axis' factor."""
        column = self.axes[axis](distance)
        return column * self.log_variance.to(column.dtype).exp()[:, None] if axis == 0 else column


_BY_NAME: dict[str, Callable[[int], AxisKernel]] = {
    "rbf": RBF,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "rational_quadratic": RationalQuadratic,
    "periodic": Periodic,
    "spectral_mixture": SpectralMixture,
}

KernelLike = str | nn.Module | Sequence[str | nn.Module]


def build_kernel(spec: KernelLike, num_gps: int, num_dims: int) -> SeparableKernel:
    """Build the kernel of J GPs of D dimensions from a name, an :class:`AxisKernel`, a gpytorch kernel, or D such."""
    per_axis = list(spec) if isinstance(spec, (list, tuple)) else [spec] * num_dims
    if len(per_axis) != num_dims:
        raise ValueError(f"Expected one kernel or {num_dims} (one an axis), got {len(per_axis)}.")
    return SeparableKernel([_axis_kernel(one, num_gps) for one in per_axis], num_gps)


def _axis_kernel(spec: Any, num_gps: int) -> AxisKernel:
    if isinstance(spec, str) and spec in _BY_NAME:
        return _BY_NAME[spec](num_gps)
    if isinstance(spec, AxisKernel):
        kernel = copy.deepcopy(spec)
        got = kernel(torch.zeros(1)).shape[0]
        if got != num_gps:
            raise ValueError(f"Expected a kernel with hyperparameters for {num_gps} GPs, got one for {got}.")
        return kernel
    if "gpytorch" in sys.modules and isinstance(spec, sys.modules["gpytorch"].kernels.Kernel):
        return GPyTorchKernel(copy.deepcopy(spec), num_gps)
    raise ValueError(
        f"Expected a kernel name ({', '.join(_BY_NAME)}), an AxisKernel or a stationary gpytorch kernel, got {spec!r}."
    )
