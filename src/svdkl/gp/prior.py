"""The prior p(u) = N(0, K_1 x ... x K_D), each factor in a form that is cheap to apply.

An axis has a square root R with K_d = R R^T. `DenseAxis` factorises the Toeplitz matrix once, in O(m_d^2) on CPUs.
`CirculantAxis` closes the axis to a ring, where R is the symmetric root and everything is a Fourier transform, in
O(m_d log m_d). Both are values: we compute them once a step and apply them as often as needed.
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

LONG_AXIS = 256  # from here on dense products cost more than the rest of a step: "auto" takes rings, and bands in q(u)
WRAPS = 6  # turns of the ring, either way, that a kernel is summed over: exact to rounding for lengthscales up to 0.5


class DenseAxis(NamedTuple):
    """One axis' K_d, held by its first column (jitter included) and its lower Cholesky factor R."""

    column: Float[Tensor, "J m"]
    root: Float[Tensor, "J m m"]
    jitter: float

    @property
    def size(self) -> int:
        """Number of grid points, m_d."""
        return self.root.shape[-1]

    def multiply(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """Return K_d X."""
        return toeplitz_matmul(self.column, x)

    def colour(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """Return R X, by way of R^T, which lies in memory row by row: all gradients of R then have one layout."""
        return (x.mT @ self.root.mT).mT

    def colour_rows(self, rows: Float[Tensor, "J r m"]) -> Float[Tensor, "J r m"]:
        """Return X R, for rows X."""
        return rows @ self.root

    def whiten(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """Return R^-1 X."""
        return torch.linalg.solve_triangular(self.root, x, upper=False)

    def log_det(self) -> Float[Tensor, "J"]:
        """Return log |K_d|."""
        return 2 * self.root.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def project(self, x: Float[Tensor, "J m r"], tolerance: float) -> Float[Tensor, "J m r"]:
        """Return R^T (K_d + noise I)^-1 X, white noise that gives X up to a tolerance times the prior's deviation."""
        noise = tolerance**2 * self.column[:, :1, None] * torch.eye(self.size, dtype=x.dtype, device=x.device)
        return self.root.mT @ torch.linalg.solve(toeplitz_dense(self.column) + noise, x)


class CirculantAxis(NamedTuple):
    """One axis' K_d, closed to a ring and held by its spectrum."""

    column: Float[Tensor, "J m"]
    spectrum: Float[Tensor, "J half"]

    @property
    def size(self) -> int:
        """Number of grid points, m_d."""
        return self.column.shape[-1]

    def multiply(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """Return K_d X."""
        return circulant.circulant_matmul(self.spectrum, x)

    def colour(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """Return R X for the symmetric R."""
        return circulant.circulant_matmul(self.spectrum.sqrt(), x)

    def colour_rows(self, rows: Float[Tensor, "J r m"]) -> Float[Tensor, "J r m"]:
        """Return X R, for rows X."""
        return self.colour(rows.mT).mT

    def whiten(self, x: Float[Tensor, "J m r"]) -> Float[Tensor, "J m r"]:
        """Return R^-1 X."""
        return circulant.circulant_matmul(1 / self.spectrum.sqrt(), x)

    def log_det(self) -> Float[Tensor, "J"]:
        """Return log |K_d|."""
        return circulant.circulant_log_det(self.spectrum, self.size)

    def project(self, x: Float[Tensor, "J m r"], tolerance: float) -> Float[Tensor, "J m r"]:
        """Return R (K_d + noise I)^-1 X, white noise that gives X up to a tolerance."""
        noise = tolerance**2 * self.column[:, :1]
        return circulant.circulant_matmul(self.spectrum.sqrt() / (self.spectrum + noise), x)


AxisPrior = DenseAxis | CirculantAxis


class Prior(NamedTuple):
    """The prior p(u_j) = N(0, K_1 x ... x K_D) of J GPs."""

    axes: tuple[AxisPrior, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of grid points, m_1, ..., m_D."""
        return tuple(axis.size for axis in self.axes)

    def colour(self, v: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return R v, which turns white noise v, (..., J, m_1, ..., m_D), into a draw of the prior."""
        for d, axis in enumerate(self.axes):
            v = along_axis(axis.colour, v, d, len(self.axes))
        return v

    def whiten(self, u: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Return R^-1 u, whose square norm is u^T K^-1 u."""
        for d, axis in enumerate(self.axes):
            u = along_axis(axis.whiten, u, d, len(self.axes))
        return u

    def log_det(self) -> Float[Tensor, "J"]:
        """Return log |K|."""
        return kron_log_det([axis.log_det() for axis in self.axes], self.sizes)

    def project(self, u: Float[Tensor, "..."], tolerance: float) -> Float[Tensor, "..."]:
        """Return the likeliest v with R v near u: where u is no draw of p(u), it is far likelier than R^-1 u."""
        for d, axis in enumerate(self.axes):
            u = along_axis(partial(axis.project, tolerance=tolerance), u, d, len(self.axes))
        return u


def build_prior(
    kernel: SeparableKernel, grid: Grid, forms: tuple[str, ...], jitter: float, device: torch.device
) -> Prior:
    """Build the prior of J GPs on a lattice, in float64, since the factors are small and badly conditioned.

    ``forms`` are "toeplitz" or "circulant" for each axis. ``jitter`` is added to the diagonal of each factor, relative
    to the factor's own variance.
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
    """Sum the kernel over all ways around the ring: again a kernel, since its spectrum is sampled, not cut."""
    m = distance.shape[-1]
    nearer = distance[: m // 2 + 1]  # half the ring; the other half mirrors it
    turns = torch.arange(-WRAPS, WRAPS, device=distance.device, dtype=distance.dtype) * m * distance[1]
    wound = kernel.column(axis, (turns[:, None] + nearer).abs().flatten())
    column = wound.unflatten(-1, (2 * WRAPS, len(nearer))).sum(-2)
    # We cut the sum after WRAPS turns. For lengthscales up to half the axis the spectrum falls below zero by rounding
    # alone; for longer ones the clamp stands in for the missing turns.
    floor = max(jitter, torch.finfo(column.dtype).eps)  # a spectrum must not reach zero
    spectrum = circulant.even_transform(column, m).clamp_min(0) + floor * column[:, :1]
    return CirculantAxis(circulant.circulant_column(spectrum, m), spectrum)
