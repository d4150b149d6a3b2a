"""J Gaussian processes of D dimensions on one lattice: kernel, prior and posterior in one module."""

import math

import torch
from torch import nn

from svdkl.gp.divergence import kl_divergence
from svdkl.gp.grid import Grid
from svdkl.gp.interpolation import NEIGHBOURS, interpolation_weights
from svdkl.gp.kernels import AxisKernel, KernelLike, build_kernel
from svdkl.gp.linalg.kronecker import along_axis
from svdkl.gp.marginals import MarginalTables, cell_roots, central_diagonals, tabulate
from svdkl.gp.posterior import Posterior
from svdkl.gp.prior import LONG_AXIS, Prior, build_prior
from svdkl.gp.quadrature import standard_normal
from svdkl.shapes import Float, Tensor

PRIOR_FORMS = ("auto", "toeplitz", "circulant")
RING_MARGIN = 1 / 8  # of a ring left free of data at either end of an axis


class LatticeGPs(nn.Module):
    """Independent GPs f_j = M u_j, u_j ~ N(centre_j, K_j), with the approximate posterior q(u_j).

    The prior's centre is zero, as in the paper, until :meth:`recentre` moves it. What is parameterised is u - centre.

    ``num_gps`` is J, ``sizes`` are m_1, ..., m_D; :class:`~svdkl.gp.head.GPHead` explains the other parameters.
    """

    def __init__(
        self,
        num_gps: int,
        sizes: tuple[int, ...],
        kernel: KernelLike = "rbf",
        posterior: str = "auto",
        whitened: bool = True,
        prior: str = "auto",
        jitter: float = 1e-6,
        posterior_scale: float = 0.01,
    ) -> None:
        super().__init__()
        if not 0 < posterior_scale < math.inf:
            raise ValueError(f"Expected a finite posterior_scale above 0, got {posterior_scale}.")
        if not 0 <= jitter < math.inf:
            raise ValueError(f"Expected a finite jitter of at least 0, got {jitter}.")
        self.num_gps = num_gps
        self.kernel = build_kernel(kernel, num_gps, len(sizes))
        self.forms = tuple(
            _prior_form(prior, size, axis)
            for size, axis in zip(sizes, (a for a in self.kernel.axes if isinstance(a, AxisKernel)), strict=True)
        )
        margin = tuple(
            max(1.0, RING_MARGIN * size) if form == "circulant" else 1.0
            for size, form in zip(sizes, self.forms, strict=True)
        )
        self.grid = Grid(sizes, margin)
        self.jitter = jitter
        self.posterior = Posterior(num_gps, sizes, posterior, whitened, posterior_scale)
        self.register_buffer("centre", torch.zeros(num_gps, *sizes))
        # What the data had left of the prior's variance when the prior was recentred; before that, all.
        self.register_buffer("share_left", torch.ones(num_gps, *sizes))
        self.centre: Tensor
        self.share_left: Tensor

    def prior(self) -> Prior:
        """p(u), factorised for the current hyperparameters."""
        return build_prior(self.kernel, self.grid, self.forms, self.jitter, self.posterior.mean.device)

    def kl(self, prior: Prior) -> Float[Tensor, "J"]:
        """KL(q(u_j) || p(u_j))."""
        return kl_divergence(self.posterior, prior)

    def tables(self, prior: Prior, dtype: torch.dtype) -> MarginalTables:
        """q(u) prepared for reading off the marginals of f."""
        tables = tabulate(self.posterior, prior, dtype)
        return tables._replace(mean=tables.mean + self.centre)

    def prior_tables(self, prior: Prior, dtype: torch.dtype) -> MarginalTables:
        """Tables of the prior, whose variance varies only by what interpolation does between grid points."""
        roots = [cell_roots(axis.column[:, :NEIGHBOURS, None].expand(-1, -1, axis.size), dtype) for axis in prior.axes]
        return MarginalTables(torch.zeros_like(self.posterior.mean, dtype=dtype), tuple(roots))

    def sample(
        self, prior: Prior, num_samples: int, dtype: torch.dtype, generator: torch.Generator | None = None
    ) -> Float[Tensor, "T J ..."]:
        """Draws of q(u) on the whole lattice, in O(m^(1 + 1/D)) each: u = mu + (x)_d L_d eps."""
        mean = self.posterior.mean.double()
        u = standard_normal(num_samples, *mean.shape, like=mean, generator=generator)
        for d, factor in enumerate(self.posterior.axes):
            u = along_axis(factor.matmul, u, d, self.grid.num_dims)
        u = mean + u
        return (self.centre + (prior.colour(u) if self.posterior.whitened else u)).to(dtype)

    def mean(self, prior: Prior) -> Float[Tensor, "J ..."]:
        """Posterior mean of u."""
        mean = self.posterior.mean.double()
        return self.centre + (prior.colour(mean) if self.posterior.whitened else mean)

    @torch.no_grad()
    def set_mean(self, u: Float[Tensor, "J ..."], tolerance: float = 0.0) -> None:
        """Make u the posterior mean, under the current hyperparameters.

        With a tolerance, relative to the prior's standard deviation, a likely function near u is taken instead.
        """
        offset, prior = u.double() - self.centre, self.prior()
        v = prior.project(offset, tolerance) if tolerance > 0 else prior.whiten(offset)
        self.posterior.mean.copy_(v if self.posterior.whitened else prior.colour(v))

    @torch.no_grad()
    def recentre(self) -> None:
        """Make the posterior mean the prior's centre: what has been learned is from here on taken as given.

        Where it has been learned, and where the prior was all there is, is kept in ``share_left``.
        """
        prior = self.prior()
        mean = self.mean(prior)
        self.share_left.mul_(self._share_left(prior))
        self.posterior.mean.zero_()
        self.centre.copy_(mean)

    def _share_left(self, prior: Prior) -> Float[Tensor, "J ..."]:
        """Posterior over prior variance at the lattice points."""
        share = torch.ones(self.num_gps, dtype=torch.float64, device=self.centre.device)
        for axis, factor in zip(prior.axes, self.posterior.axes, strict=True):
            variance = central_diagonals(factor, axis if self.posterior.whitened else None)[:, 0]
            share = share.unsqueeze(-1) * (variance / axis.column[:, :1]).view(
                self.num_gps, *[1] * (share.dim() - 1), -1
            )
        return share.clamp(max=1)

    def prior_covariance(
        self, left: Float[Tensor, "B J D"], right: Float[Tensor, "B2 J D"], prior: Prior
    ) -> Float[Tensor, "J B B2"]:
        """The deep kernel itself: k_j(x, x') = M_x K M_x'^T."""
        result = torch.ones(())
        for d, axis in enumerate(prior.axes):
            rows, columns = self._axis_rows(left, d), self._axis_rows(right, d)
            result = result * (rows @ axis.multiply(columns.mT))
        return result

    def posterior_covariance(
        self, left: Float[Tensor, "B J D"], right: Float[Tensor, "B2 J D"], prior: Prior
    ) -> Float[Tensor, "J B B2"]:
        """Cov_q(f_j(x), f_j(x')) = M_x S M_x'^T."""
        result = torch.ones(())
        for d, (axis, factor) in enumerate(zip(prior.axes, self.posterior.axes, strict=True)):
            rows, columns = (self._axis_rows(positions, d) for positions in (left, right))
            if self.posterior.whitened:
                rows, columns = axis.colour_rows(rows), axis.colour_rows(columns)
            result = result * (factor.times_rows(rows) @ factor.times_rows(columns).mT)
        return result

    def _axis_rows(self, positions: Float[Tensor, "B J D"], axis: int) -> Float[Tensor, "J B m_d"]:
        return interpolation_weights(positions[..., axis].double(), self.grid.sizes[axis]).movedim(1, 0)


def _prior_form(requested: str, size: int, kernel: AxisKernel) -> str:
    if requested not in PRIOR_FORMS:
        raise ValueError(f"Expected a prior form out of {', '.join(PRIOR_FORMS)}, got {requested!r}.")
    if requested == "auto":
        return "circulant" if size >= LONG_AXIS and kernel.decays else "toeplitz"
    if requested == "circulant" and not kernel.decays:
        raise ValueError(
            f"Expected a kernel that decays exponentially with distance for a circulant prior, got "
            f"{type(kernel).__name__}: use prior='toeplitz'."
        )
    return requested
