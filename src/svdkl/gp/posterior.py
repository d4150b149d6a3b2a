"""The posterior q(u_j) = N(mu_j, S_1 x ... x S_D), S_d = L_d L_d^T, and the families that L_d may belong to.

The paper writes S = L^T L beside u = mu + L eps; the two agree only for S = L L^T, which we mean throughout.

Two parameterisations share the families. `direct`: mu and L_d parameterise q(u), as in the paper. `whitened`: they
parameterise q(v), where u = R v and K = R R^T. The prior of v is N(0, I) whatever the kernel, which makes joint
training of kernel and posterior well conditioned.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import softplus

from svdkl.gp.interpolation import NEIGHBOURS
from svdkl.gp.linalg.banded import banded_dense, banded_gram, banded_matmul, dense_gram, rows_times_banded
from svdkl.gp.linalg.small import positive_lower, strictly_lower_matmul
from svdkl.gp.prior import LONG_AXIS
from svdkl.shapes import Float, Tensor

DEFAULT_BANDWIDTH = 4  # diagonals below the main one: more follow correlations further and cost m_d numbers each


def inverse_softplus(y: Tensor) -> Tensor:
    """Return x with softplus(x) = y, for y > 0."""
    return y + torch.log(-torch.expm1(-y))


class AxisFactor(nn.Module, ABC):
    """The factor L_d of one axis for J GPs; it is read in float64, since products of factors are badly conditioned."""

    size: int
    width: int  # diagonals of L_d that may be nonzero, the main one included; S_d has as many on either side

    @abstractmethod
    def matmul(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """Return L_d X."""

    @abstractmethod
    def times_rows(self, rows: Float[Tensor, "J r m"]) -> Float[Tensor, "J r m"]:
        """Return X L_d, for rows X."""

    @abstractmethod
    def log_det(self) -> Float[Tensor, "J"]:
        """Return log |S_d|."""

    @abstractmethod
    def trace(self) -> Float[Tensor, "J"]:
        """Return tr(S_d), which is the sum of the squares of L_d."""

    def trace_and_log_det(self) -> tuple[Float[Tensor, "J"], Float[Tensor, "J"]]:
        """Return tr(S_d) and log |S_d|."""
        return self.trace(), self.log_det()

    @abstractmethod
    def gram(self, width: int) -> Float[Tensor, "J width m"]:
        """Return the first upper diagonals of S_d: gram[k, i] = S_d[i, i + k]."""

    def coloured_gram(self, root: Float[Tensor, "J m m"], width: int) -> Float[Tensor, "J width m"]:
        """Return the first upper diagonals of R S_d R^T, for a lower triangular R."""
        return dense_gram(root @ self.dense(), width)

    @abstractmethod
    def dense(self) -> Float[Tensor, "J m m"]:
        """Write out L_d, for axes short enough to be factorised."""

    @abstractmethod
    def assign(self, factor: Float[Tensor, "J m m"]) -> None:
        """Copy a given L_d, as far as the family can hold it."""

    @abstractmethod
    def assign_scale(self, scale: Float[Tensor, "J"]) -> None:
        """Set L_d to a multiple of the identity."""


def _positive(raw: Tensor) -> Tensor:
    return softplus(raw).double()


class CholeskyFactor(AxisFactor):
    """The paper's family: L_d is any lower triangular matrix, O(m_d^2) numbers."""

    def __init__(self, num_gps: int, size: int) -> None:
        super().__init__()
        self.size = self.width = size
        self.raw = nn.Parameter(torch.zeros(num_gps, size, size))

    def dense(self) -> Float[Tensor, "J m m"]:
        """Write out L_d; the raw parameter's upper triangle is not read."""
        return positive_lower(self.raw)

    def matmul(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """Return L_d X in the parameter's own precision: on long axes, draws of u cost little but memory traffic."""
        narrow = x.to(self.raw.dtype)
        diagonal = softplus(self.raw.diagonal(dim1=-2, dim2=-1)).unsqueeze(-1)
        return (strictly_lower_matmul(self.raw, narrow) + diagonal * narrow).to(x.dtype)

    def times_rows(self, rows: Float[Tensor, "J r m"]) -> Float[Tensor, "J r m"]:
        """Return X L_d, for rows X."""
        return rows @ self.dense()

    def log_det(self) -> Float[Tensor, "J"]:
        """Return log |S_d| = 2 sum_p log L_pp."""
        return 2 * _positive(self.raw.diagonal(dim1=-2, dim2=-1)).log().sum(-1)

    def trace(self) -> Float[Tensor, "J"]:
        """Return tr(S_d)."""
        below = self.raw.tril(-1).square().sum((-2, -1), dtype=torch.float64)
        return below + _positive(self.raw.diagonal(dim1=-2, dim2=-1)).square().sum(-1)

    def trace_and_log_det(self) -> tuple[Float[Tensor, "J"], Float[Tensor, "J"]]:
        """Return tr(S_d) and log |S_d|, on CPUs in one pass."""
        if not self._fits_loops():
            return super().trace_and_log_det()
        from svdkl.gp.fast.cholesky_loops import CPUTraceAndLogDet

        return CPUTraceAndLogDet.apply(self.raw)

    def gram(self, width: int) -> Float[Tensor, "J width m"]:
        """Return the first upper diagonals of S_d."""
        return dense_gram(self.dense(), width)

    def coloured_gram(self, root: Float[Tensor, "J m m"], width: int) -> Float[Tensor, "J width m"]:
        """Return the first upper diagonals of R S_d R^T; compiled where L_d is small enough to stay in the cache."""
        if not self._fits_loops() or width != NEIGHBOURS or self.size >= LONG_AXIS:
            return super().coloured_gram(root, width)
        from svdkl.gp.fast.cholesky_loops import CPUColouredGram

        return CPUColouredGram.apply(root, self.raw)

    def _fits_loops(self) -> bool:
        wide = self.raw.dtype in (torch.float32, torch.float64)
        return wide and self.raw.device.type == "cpu" and not torch.compiler.is_compiling()

    @torch.no_grad()
    def assign_scale(self, scale: Float[Tensor, "J"]) -> None:
        """Set L_d to scale I."""
        self.raw.zero_()
        self.raw.diagonal(dim1=-2, dim2=-1).copy_(inverse_softplus(scale)[:, None])

    @torch.no_grad()
    def assign(self, factor: Float[Tensor, "J m m"]) -> None:
        """Copy L_d."""
        diagonal = inverse_softplus(factor.diagonal(dim1=-2, dim2=-1))
        self.raw.copy_(factor.tril(-1) + torch.diag_embed(diagonal))


class BandedFactor(AxisFactor):
    """L_d with few diagonals: correlations between near neighbours, O(w m_d) numbers."""

    def __init__(self, num_gps: int, size: int, bandwidth: int = DEFAULT_BANDWIDTH) -> None:
        super().__init__()
        self.size = size
        self.width = min(bandwidth, size - 1) + 1
        self.raw_diagonal = nn.Parameter(torch.zeros(num_gps, size))
        self.lower = nn.Parameter(torch.zeros(num_gps, self.width - 1, size))
        below = torch.arange(1, self.width)[:, None]
        self.register_buffer("inside", torch.arange(size) + below < size, persistent=False)
        self.inside: Tensor

    def bands(self) -> Float[Tensor, "J w m"]:
        """Return bands[k, i] = L_d[i + k, i]."""
        lower = self.lower.double() * self.inside
        return torch.cat([_positive(self.raw_diagonal).unsqueeze(-2), lower], -2)

    def dense(self) -> Float[Tensor, "J m m"]:
        """Write out L_d."""
        return banded_dense(self.bands())

    def matmul(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """Return L_d X."""
        return banded_matmul(self.bands(), x)

    def times_rows(self, rows: Float[Tensor, "J r m"]) -> Float[Tensor, "J r m"]:
        """Return X L_d, for rows X."""
        return rows_times_banded(rows, self.bands())

    def log_det(self) -> Float[Tensor, "J"]:
        """Return log |S_d|."""
        return 2 * _positive(self.raw_diagonal).log().sum(-1)

    def trace(self) -> Float[Tensor, "J"]:
        """Return tr(S_d)."""
        return self.bands().square().sum((-2, -1))

    def gram(self, width: int) -> Float[Tensor, "J width m"]:
        """Return the first upper diagonals of S_d."""
        return banded_gram(self.bands(), width)

    @torch.no_grad()
    def assign_scale(self, scale: Float[Tensor, "J"]) -> None:
        """Set L_d to scale I."""
        self.lower.zero_()
        self.raw_diagonal.copy_(inverse_softplus(scale)[:, None].expand_as(self.raw_diagonal))

    @torch.no_grad()
    def assign(self, factor: Float[Tensor, "J m m"]) -> None:
        """Copy the diagonals of L_d that the band holds."""
        self.raw_diagonal.copy_(inverse_softplus(factor.diagonal(dim1=-2, dim2=-1)))
        for k in range(1, self.width):
            self.lower[:, k - 1, : self.size - k] = factor.diagonal(-k, -2, -1)


class DiagonalFactor(AxisFactor):
    """Mean field: L_d is diagonal, m_d numbers."""

    def __init__(self, num_gps: int, size: int) -> None:
        super().__init__()
        self.size, self.width = size, 1
        self.raw = nn.Parameter(torch.zeros(num_gps, size))

    def dense(self) -> Float[Tensor, "J m m"]:
        """Write out L_d."""
        return torch.diag_embed(_positive(self.raw))

    def matmul(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """Return L_d X."""
        return _positive(self.raw).unsqueeze(-1) * x

    def times_rows(self, rows: Float[Tensor, "J r m"]) -> Float[Tensor, "J r m"]:
        """Return X L_d, for rows X."""
        return rows * _positive(self.raw).unsqueeze(-2)

    def log_det(self) -> Float[Tensor, "J"]:
        """Return log |S_d|."""
        return 2 * _positive(self.raw).log().sum(-1)

    def trace(self) -> Float[Tensor, "J"]:
        """Return tr(S_d)."""
        return _positive(self.raw).square().sum(-1)

    def gram(self, width: int) -> Float[Tensor, "J width m"]:
        """Return the first upper diagonals of S_d; all but the main one are zero."""
        main = _positive(self.raw).square().unsqueeze(-2)
        return torch.nn.functional.pad(main, (0, 0, 0, width - 1))

    @torch.no_grad()
    def assign_scale(self, scale: Float[Tensor, "J"]) -> None:
        """Set L_d to scale I."""
        self.raw.copy_(inverse_softplus(scale)[:, None].expand_as(self.raw))

    @torch.no_grad()
    def assign(self, factor: Float[Tensor, "J m m"]) -> None:
        """Copy the diagonal of L_d."""
        self.raw.copy_(inverse_softplus(factor.diagonal(dim1=-2, dim2=-1)))


FAMILIES: dict[str, Callable[[int, int], AxisFactor]] = {
    "cholesky": CholeskyFactor,
    "banded": BandedFactor,
    "mean_field": DiagonalFactor,
}
FAMILY_CHOICES = ("auto", *FAMILIES)


def family_of_axis(family: str, size: int) -> str:
    """Resolve "auto" for an axis of so many points: "cholesky" below 256 points, "banded" from there on."""
    if family not in FAMILY_CHOICES:
        raise ValueError(f"Expected a posterior family out of {', '.join(FAMILY_CHOICES)}, got {family!r}.")
    if family == "auto":
        return "cholesky" if size < LONG_AXIS else "banded"
    return family


class Posterior(nn.Module):
    """Mean and covariance factors of q(u_j), or of q(v_j) where whitened, for J GPs on a lattice.

    ``num_gps`` is J, ``sizes`` are m_1, ..., m_D, and ``scale`` is the standard deviation at the start.
    """

    def __init__(self, num_gps: int, sizes: tuple[int, ...], family: str, whitened: bool, scale: float) -> None:
        super().__init__()
        self.whitened = whitened
        self.mean = nn.Parameter(torch.zeros(num_gps, *sizes))
        self.factors = nn.ModuleList([FAMILIES[family_of_axis(family, size)](num_gps, size) for size in sizes])
        self.set_scale(torch.full((num_gps,), scale))

    @property
    def axes(self) -> list[AxisFactor]:
        """The factors of all axes, typed for mypy."""
        return [factor for factor in self.factors if isinstance(factor, AxisFactor)]

    def set_scale(self, scale: Float[Tensor, "J"]) -> None:
        """Set S_j to scale_j^2 I; each axis takes the D-th root."""
        for factor in self.axes:
            factor.assign_scale(scale ** (1 / len(self.axes)))
