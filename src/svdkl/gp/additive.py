"""Additive Gaussian processes on features: from h to the distribution of the functions f_j there."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import nn

from svdkl.gp.bounding import Bounding
from svdkl.gp.fast.backends import require_backend
from svdkl.gp.groups import Bank, lattice_sizes, make_groups
from svdkl.gp.interpolation import interpolate
from svdkl.gp.kernels import KernelLike
from svdkl.gp.lattice_gps import LatticeGPs
from svdkl.gp.marginals import Marginals, MarginalTables
from svdkl.gp.memory import available_bytes, estimate_bytes, too_large
from svdkl.gp.posterior import FAMILY_CHOICES
from svdkl.gp.prior import Prior
from svdkl.shapes import Float, Tensor


class NonFiniteFeaturesError(ValueError):
    """Features that are NaN or infinite."""


class HeadState(NamedTuple):
    """Priors and posteriors at the current parameters: computed once by :meth:`GPHead.state`, used for many rows."""

    priors: tuple[Prior, ...]
    tables: tuple[MarginalTables, ...]


class AdditiveGPs(nn.Module):
    """One GP on each group of features. :class:`~svdkl.gp.head.GPHead` explains the parameters."""

    def __init__(
        self,
        *,
        num_features: int,
        dims_per_gp: int,
        groups: Sequence[Sequence[int]] | None,
        grid_size: int | Sequence[int],
        kernel: KernelLike,
        posterior: str,
        whitened: bool,
        prior: str,
        interpolation: str,
        learn_bounds: bool,
        jitter: float,
        posterior_scale: float,
    ) -> None:
        super().__init__()
        require_backend(interpolation)
        if posterior not in FAMILY_CHOICES:
            raise not_a_choice("posterior", posterior, FAMILY_CHOICES)
        if num_features < 1:
            raise not_positive("num_features", num_features)
        self.num_features = num_features
        self.interpolation = interpolation
        self.groups = make_groups(num_features, dims_per_gp, groups)
        self.bounding = Bounding(num_features, learn_bounds)
        self.banks = nn.ModuleList()  # one for each number of dimensions
        order: list[int] = []
        for num_dims in sorted({len(group) for group in self.groups}):
            members = [j for j, group in enumerate(self.groups) if len(group) == num_dims]
            sizes = lattice_sizes(grid_size, num_dims)
            if estimate_bytes(len(members), sizes, posterior, prior) > available_bytes():
                raise too_large(len(members), sizes, posterior, prior)
            part = LatticeGPs(
                len(members),
                sizes,
                kernel=kernel,
                posterior=posterior,
                whitened=whitened,
                prior=prior,
                jitter=jitter,
                posterior_scale=posterior_scale,
            )
            self.banks.append(Bank(part, [self.groups[j] for j in members], num_features))
            order += members
        inverse = torch.tensor(order).argsort()
        self.register_buffer("gp_order", inverse, persistent=False)
        self.gp_order: Tensor

    @property
    def num_gps(self) -> int:
        """J, the number of GPs."""
        return len(self.groups)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of all results, which is never below float32."""
        return torch.promote_types(self.bounding.location.dtype, torch.float32)

    def members(self) -> list["Bank"]:
        """The GPs by their number of dimensions, with the features that they see."""
        return [bank for bank in self.banks if isinstance(bank, Bank)]

    def state(self) -> HeadState:
        """Factorise priors and posteriors at the current parameters."""
        priors = tuple(bank.gps.prior() for bank in self.members())
        tables = tuple(bank.gps.tables(prior, self.dtype) for bank, prior in zip(self.members(), priors, strict=True))
        return HeadState(priors, tables)

    def kl(self, state: HeadState) -> Float[Tensor, "J"]:
        """KL(q(u_j) || p(u_j)) for each GP."""
        kls = [bank.gps.kl(prior) for bank, prior in zip(self.members(), state.priors, strict=True)]
        return self._in_order(kls)

    def marginals(self, h: Float[Tensor, "B Q"], state: HeadState | None = None) -> Marginals:
        """Mean and variance of each q(f_ij)."""
        h = self.enter(h)
        state = state or self.state()
        parts = [t.at(p, self.interpolation) for t, p in zip(state.tables, self.positions(h), strict=True)]
        return Marginals(self._in_order([p.mean for p in parts]), self._in_order([p.variance for p in parts]))

    def prior_marginals(self, h: Float[Tensor, "B Q"], state: HeadState) -> Marginals:
        """Mean and variance of each f_ij under the prior."""
        h = self.enter(h)
        parts = [
            bank.gps.prior_tables(prior, h.dtype).at(p, self.interpolation)
            for bank, prior, p in zip(self.members(), state.priors, self.positions(h), strict=True)
        ]
        return Marginals(self._in_order([p.mean for p in parts]), self._in_order([p.variance for p in parts]))

    def sample_functions(
        self,
        h: Float[Tensor, "B Q"],
        num_samples: int,
        generator: torch.Generator | None = None,
        state: HeadState | None = None,
    ) -> Float[Tensor, "T B J"]:
        """Joint draws of all f_j at these rows: each draw is one function, f^(t) = M u^(t)."""
        if num_samples < 1:
            raise not_positive("num_samples", num_samples)
        h = self.enter(h)
        state = state or self.state()
        parts = [
            interpolate(bank.gps.sample(prior, num_samples, h.dtype, generator), p)
            for bank, prior, p in zip(self.members(), state.priors, self.positions(h), strict=True)
        ]
        return self._in_order(parts)

    def kernel_matrix(self, h: Float[Tensor, "B Q"], other: Float[Tensor, "B2 Q"], gp: int) -> Float[Tensor, "B B2"]:
        """The deep kernel of one GP between two sets of rows: M K M'^T, the prior covariance of f_j."""
        return self._covariance(h, other, gp, prior=True)

    def latent_covariance(
        self, h: Float[Tensor, "B Q"], other: Float[Tensor, "B2 Q"], gp: int
    ) -> Float[Tensor, "B B2"]:
        """Posterior covariance of f_j between two sets of rows: M S M'^T."""
        return self._covariance(h, other, gp, prior=False)

    def enter(self, h: Tensor) -> Tensor:
        """Check the features and bring them to the head's precision."""
        if h.dim() != 2 or h.shape[1] != self.num_features:
            raise ValueError(f"Expected features of shape (rows, {self.num_features}), got {tuple(h.shape)}.")
        # Where all are finite, their sum nearly always is, and one number shows it.
        if not torch.compiler.is_compiling() and not math.isfinite(h.detach().sum()) and not bool(h.isfinite().all()):
            row = int((~torch.isfinite(h)).any(1).nonzero()[0])
            raise NonFiniteFeaturesError(
                f"Expected finite features, got NaN or infinity in row {row}: check the inputs and the network's "
                f"weights."
            )
        return h.to(self.dtype)

    def positions(self, h: Tensor) -> list[Tensor]:
        """Positions on the lattice, (B, J, D) for each bank."""
        z = self.bounding(h)
        return [bank.positions(z) for bank in self.members()]

    def share_left(self, h: Tensor) -> Tensor:
        """The share of each GP's prior variance that the data had left when the prior was recentred."""
        places = self.positions(self.enter(h))
        parts = [interpolate(bank.gps.share_left, p) for bank, p in zip(self.members(), places, strict=True)]
        return self._in_order(parts).clamp(0, 1)

    def _in_order(self, parts: list[Tensor]) -> Tensor:
        """Join the banks' GPs along the last dimension, in the order of the groups."""
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)[..., self.gp_order]

    def _covariance(self, h: Tensor, other: Tensor, gp: int, prior: bool) -> Tensor:
        if not 0 <= gp < self.num_gps:
            raise ValueError(f"Expected a GP from 0 to {self.num_gps - 1}, got {gp}.")
        h, other = self.enter(h), self.enter(other)
        place = int(self.gp_order[gp])
        for bank, left, right in zip(self.members(), self.positions(h), self.positions(other), strict=True):
            if place < bank.gps.num_gps:
                gps = bank.gps
                covariance = gps.prior_covariance if prior else gps.posterior_covariance
                return covariance(left, right, gps.prior())[place].to(h.dtype)
            place -= bank.gps.num_gps
        raise AssertionError("every GP is in a bank")


def not_positive(name: str, value: int) -> ValueError:
    """Make the error for a number below 1."""
    return ValueError(f"Expected {name} of at least 1, got {value}.")


def not_a_choice(name: str, value: str, choices: Sequence[str]) -> ValueError:
    """Make the error for a value that is none of the choices."""
    return ValueError(f"Expected {name} to be one of {', '.join(choices)}, got {value!r}.")
