"""The prior p(u) = N(0, K_1 x ... x K_D): each factor held in the form in which it is cheap to apply.

An axis has a square root R with K_d = R R^T. `DenseAxis` factorises the Toeplitz matrix once, in O(m_d^2) on CPUs.
`CirculantAxis` closes the axis to a ring, where R is the symmetric root and everything is a Fourier transform, in
O(m_d log m_d). Both are values: computed once a step, then applied as often as needed.
"""

from functools import partial
from typing import NamedTuple

import torch

from svdkl.gp.grid import Grid
from svdkl.gp.kernels import SeparableKernel
from svdkl.gp.linalg import circulant
from svdkl.gp.linalg.kronecker import along_axis, kron_log_det
from svdkl.gp.linalg.toeplitz import toeplitz_cholesky, toeplitz_dense, toeplitz_matmul
from svdkl.shapes import Float, Tensor

LONG_AXIS = 256  # points from which on "auto" takes forms that grow like m log m: circulant here, banded in q(u)
WRAPS = 6  # how many times a kernel is wound around the ring, either way


class DenseAxis(NamedTuple):
    """K_d of one axis by its first column (jitter included) and its lower Cholesky factor."""

    column: Float[Tensor, "J m"]
    root: Float[Tensor, "J m m"]
    jitter: float

    @property
    def size(self) -> int:
        """m_d."""
        return self.root.shape[-1]

    def multiply(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """K_d X."""
        return toeplitz_matmul(self.column, x)

    def colour(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """R X. By R^T, which is what lies in memory row by row: R's gradient is then laid out as all others of it."""
        return (x.mT @ self.root.mT).mT

    def colour_rows(self, rows: Float[Tensor, "J r m"]) -> Float[Tensor, "J r m"]:
        """X R."""
        return rows @ self.root

    def whiten(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """R^-1 X."""
        return torch.linalg.solve_triangular(self.root, x, upper=False)

    def log_det(self) -> Float[Tensor, "J"]:
        """Log |K_d|."""
        return 2 * self.root.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def project(self, x: Float[Tensor, "J m r"], tolerance: float) -> Float[Tensor, "J m r"]:
        """R^T (K_d + noise I)^-1 X: white noise that gives X up to a tolerance, relative to the prior's deviation."""
        noise = tolerance**2 * self.column[:, :1, None] * torch.eye(self.size, dtype=x.dtype, device=x.device)
        return self.root.mT @ torch.linalg.solve(toeplitz_dense(self.column) + noise, x)


class CirculantAxis(NamedTuple):
    """K_d of one axis that is closed to a ring, by its spectrum."""

    column: Float[Tensor, "J m"]
    spectrum: Float[Tensor, "J half"]

    @property
    def size(self) -> int:
        """m_d."""
        return self.column.shape[-1]

    def multiply(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """K_d X."""
        return circulant.circulant_matmul(self.spectrum, x)

    def colour(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """R X, R symmetric."""
        return circulant.circulant_matmul(self.spectrum.sqrt(), x)

    def colour_rows(self, rows: Float[Tensor, "J r m"]) -> Float[Tensor, "J r m"]:
        """X R."""
        return self.colour(rows.mT).mT

    def whiten(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """R^-1 X."""
        return circulant.circulant_matmul(1 / self.spectrum.sqrt(), x)

    def log_det(self) -> Float[Tensor, "J"]:
        """Log |K_d|."""
        return circulant.circulant_log_det(self.spectrum, self.size)

    def project(self, x: Float[Tensor, "J m r"], tolerance: float) -> Float[Tensor, "J m r"]:
        """R (K_d + noise I)^-1 X."""
        noise = tolerance**2 * self.column[:, :1]
        return circulant.circulant_matmul(self.spectrum.sqrt() / (self.spectrum + noise), x)


AxisPrior = DenseAxis | CirculantAxis


class Prior(NamedTuple):
    """p(u_j) = N(0, K_1 x ... x K_D) for J GPs."""

    axes: tuple[AxisPrior, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """m_1, ..., m_D."""
        return tuple(axis.size for axis in self.axes)

    def multiply(self, u: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """K u, for u of shape (..., J, m_1, ..., m_D)."""
        for d, axis in enumerate(self.axes):
            u = along_axis(axis.multiply, u, d, len(self.axes))
        return u

    def colour(self, v: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """R v: white noise becomes a draw of the prior."""
        for d, axis in enumerate(self.axes):
            v = along_axis(axis.colour, v, d, len(self.axes))
        return v

    def whiten(self, u: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """R^-1 u; its square norm is u^T K^-1 u."""
        for d, axis in enumerate(self.axes):
            u = along_axis(axis.whiten, u, d, len(self.axes))
        return u

    def log_det(self) -> Float[Tensor, "J"]:
        """Log |K|."""
        return kron_log_det([axis.log_det() for axis in self.axes], self.sizes)

    def project(self, u: Float[Tensor, "..."], tolerance: float) -> Float[Tensor, "..."]:
        """The likeliest v with R v near u: a little off u, and far likelier than R^-1 u where u is no draw of p(u)."""
        for d, axis in enumerate(self.axes):
            u = along_axis(partial(axis.project, tolerance=tolerance), u, d, len(self.axes))
        return u


def build_prior(
    kernel: SeparableKernel, grid: Grid, forms: tuple[str, ...], jitter: float, device: torch.device
) -> Prior:
    """The prior of J GPs on a lattice; in float64, since the factors are small and badly conditioned.

    Parameters
    ----------
    forms
        "toeplitz" or "circulant" for each axis.
    jitter
        Added to the diagonal of each factor, relative to the factor's own variance.
    """
    axes: list[AxisPrior] = []
    for d, form in enumerate(forms):
        distance = grid.distances(d, torch.float64, device)
        if form == "toeplitz":
            axes.append(_dense_axis(kernel.column(d, distance), jitter))
        else:
            axes.append(_circulant_axis(kernel, d, distance, jitter))
    return Prior(tuple(axes))


def _dense_axis(column: Float[Tensor, "J m"], jitter: float) -> DenseAxis:
    root, used = toeplitz_cholesky(column, jitter)
    nugget = torch.nn.functional.pad(used * column[:, :1], (0, column.shape[-1] - 1))
    return DenseAxis(column + nugget, root, used)


def _circulant_axis(kernel: SeparableKernel, axis: int, distance: Float[Tensor, "m"], jitter: float) -> CirculantAxis:
    """Sum the kernel over all the ways around the ring: again a kernel, since its spectrum is sampled, not cut."""
    m = distance.shape[-1]
    nearer = distance[: m // 2 + 1]  # half way around; the other half mirrors it
    turns = torch.arange(-WRAPS, WRAPS, device=distance.device, dtype=distance.dtype) * m * distance[1]
    wound = kernel.column(axis, (turns[:, None] + nearer).abs().flatten())
    column = wound.unflatten(-1, (2 * WRAPS, len(nearer))).sum(-2)
    # The sum is cut after a few turns. For lengthscales up to half the axis what that leaves below zero is as small as
    # rounding; beyond, the clamp stands in for the turns that are missing.
    floor = max(jitter, torch.finfo(column.dtype).eps)  # a spectrum must not reach zero
    spectrum = circulant.even_transform(column, m).clamp_min(0) + floor * column[:, :1]
    return CirculantAxis(circulant.circulant_column(spectrum, m), spectrum)
