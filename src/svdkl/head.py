"""The Gaussian process head: from features h to the distribution of y."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from svdkl.bank import Bank, lattice_sizes
from svdkl.expectation import Part, expectation_over_marginals, expectation_over_samples
from svdkl.features.bounding import Bounding
from svdkl.features.groups import make_groups
from svdkl.inducing.gps import GridGPs
from svdkl.inducing.marginal import Marginals, MarginalTables
from svdkl.inducing.posterior import FAMILY_CHOICES
from svdkl.inducing.prior import Prior
from svdkl.interpolation import interpolate, require_backend
from svdkl.kernels import KernelLike
from svdkl.likelihoods import LikelihoodLike, build_likelihood
from svdkl.memory import refuse_if_too_large
from svdkl.mixing import Mixing
from svdkl.objective import ELBO, check_num_data, check_sample_weight, evidence_lower_bound
from svdkl.prediction import (
    LatentPoints,
    Prediction,
    latent_points,
    predictive_log_density,
    predictive_moments,
    predictive_probabilities,
)
from svdkl.quadrature import normal_points
from svdkl.shapes import Float, Tensor
from svdkl.uncertainty import Uncertainty, uncertainty

ESTIMATORS = ("marginal", "joint")
LAYOUTS = ("features", "outputs")
MOST_POINTS = 1024  # that are taken for the sake of exact moments
# Latent values held at a time in a prediction: on a CPU those that stay in its cache, else 128 MiB of float32.
POINTS_IN_CACHE, POINTS_IN_MEMORY = 2**19, 2**25


class NonFiniteFeaturesError(ValueError):
    """Features that are NaN or infinite."""


class HeadState(NamedTuple):
    """Priors and posteriors at the current parameters: compute once with :meth:`GPHead.state`, use for many rows."""

    priors: tuple[Prior, ...]
    tables: tuple[MarginalTables, ...]


class GPHead(nn.Module):
    """Additive Gaussian processes on features, mixed linearly into outputs with a likelihood.

    Parameters
    ----------
    num_features
        Q.
    num_outputs
        C: classes, or targets.
    likelihood
        "softmax", "bernoulli", "gaussian", "student_t", "poisson", "negative_binomial", a
        :class:`~svdkl.likelihoods.Likelihood`, or a function from g to a ``torch.distributions.Distribution``.
    dims_per_gp, groups
        D, for consecutive groups; or the groups themselves, ``[(0,), (1, 2), ...]``, of one or several sizes.
    gps
        "features": GPs on groups of features, a mixing matrix of C x J. "outputs": the paper's form, in which the
        network ends in C features, one GP an output, and mixing starts at the identity.
    grid_size
        m_d, for all axes, or one for each.
    kernel
        "rbf", "matern12", "matern32", "matern52", "rational_quadratic", "periodic", "spectral_mixture", a kernel
        module, a stationary gpytorch kernel; or one an axis.
    posterior
        Family of q(u): "cholesky", "banded", "mean_field", or "auto": axis by axis, Cholesky below 256 points, banded
        from there on.
    whitened
        Whether q is parameterised relative to the prior.
    prior
        Form of the prior's factors: "toeplitz", "circulant" or "auto".
    estimator, num_samples
        How the expected log likelihood is estimated in training: "marginal" or "joint", with T samples where samples
        are needed.
    num_points
        Quasi-random points of a prediction, where the likelihood needs them; at least two for each GP, up to 1,024.
    interpolation
        What computes the marginals: "eager", "cpu" (compiled loops), "triton" (for GPUs), or "auto", the fastest for
        where the features lie. All give the same numbers, up to rounding.
    learn_bounds
        Whether the ranges of the features are learned on from where the data have put them.
    jitter
        Relative jitter of the prior's factors.
    posterior_scale
        Standard deviation of q(u) at the start, relative to the prior's where whitened.
    """

    def __init__(
        self,
        num_features: int,
        num_outputs: int,
        likelihood: LikelihoodLike = "softmax",
        *,
        dims_per_gp: int = 1,
        groups: Sequence[Sequence[int]] | None = None,
        gps: str = "features",
        grid_size: int | Sequence[int] = 64,
        kernel: KernelLike = "rbf",
        posterior: str = "auto",
        whitened: bool = True,
        prior: str = "auto",
        estimator: str = "marginal",
        num_samples: int = 1,
        num_points: int = 128,
        interpolation: str = "auto",
        learn_bounds: bool = False,
        jitter: float = 1e-6,
        posterior_scale: float = 0.01,
    ) -> None:
        super().__init__()
        _require_choice("estimator", estimator, ESTIMATORS)
        _require_choice("gps", gps, LAYOUTS)
        require_backend(interpolation)
        _require_choice("posterior", posterior, FAMILY_CHOICES)
        for name, value in (
            ("num_features", num_features),
            ("num_outputs", num_outputs),
            ("num_samples", num_samples),
        ):
            _require_positive(name, value)
        if num_points < 2 or num_points % 2:
            raise ValueError(f"Expected num_points to be even and at least 2 (points come in pairs), got {num_points}.")
        self.num_features = num_features
        self.num_outputs = num_outputs
        self.estimator = estimator
        self.num_samples = num_samples
        self.interpolation = interpolation
        self.groups = make_groups(num_features, dims_per_gp, groups)
        num_gps = len(self.groups)
        if gps == "outputs" and not (num_features == num_outputs == num_gps):
            raise ValueError(
                f"Expected one feature and one GP for each of the {num_outputs} outputs with gps='outputs', got "
                f"{num_features} features in {num_gps} groups: end the network in {num_outputs} features, or use "
                f"gps='features'."
            )

        self.bounding = Bounding(num_features, learn_bounds)
        self.banks = nn.ModuleList()  # one for each number of dimensions
        order: list[int] = []
        for num_dims in sorted({len(group) for group in self.groups}):
            members = [j for j, group in enumerate(self.groups) if len(group) == num_dims]
            sizes = lattice_sizes(grid_size, num_dims)
            refuse_if_too_large(len(members), sizes, posterior, prior)
            part = GridGPs(len(members), sizes, kernel, posterior, whitened, prior, jitter, posterior_scale)
            self.banks.append(Bank(part, [self.groups[j] for j in members], num_features))
            order += members
        inverse = torch.tensor(order).argsort()
        self.register_buffer("gp_order", inverse, persistent=False)
        self.gp_order: Tensor

        self.mixing = Mixing(num_gps, num_outputs)
        self.likelihood = build_likelihood(likelihood, num_outputs)
        # With two points a GP the second moments of the points are exact.
        num_points = max(num_points, min(2 * num_gps, MOST_POINTS))
        self.register_buffer("normal_points", normal_points(num_points, num_gps).float(), persistent=False)
        self.normal_points: Tensor

    @property
    def num_gps(self) -> int:
        """J."""
        return len(self.groups)

    # ------------------------------------------------------------------------------------------------ q(f) and KL

    def state(self) -> HeadState:
        """Factorise priors and posteriors at the current parameters."""
        dtype = self._dtype()
        priors = tuple(bank.gps.prior() for bank in self.members())
        tables = tuple(bank.gps.tables(prior, dtype) for bank, prior in zip(self.members(), priors, strict=True))
        return HeadState(priors, tables)

    def kl(self, state: HeadState) -> Float[Tensor, "J"]:
        """KL(q(u_j) || p(u_j)) for each GP."""
        kls = [bank.gps.kl(prior) for bank, prior in zip(self.members(), state.priors, strict=True)]
        return self._in_order(kls)

    def marginals(self, h: Float[Tensor, "B Q"], state: HeadState | None = None) -> Marginals:
        """Mean and variance of each q(f_ij)."""
        h = self._enter(h)
        state = state or self.state()
        parts = [t.at(p, self.interpolation) for t, p in zip(state.tables, self._positions(h), strict=True)]
        return Marginals(self._in_order([p.mean for p in parts]), self._in_order([p.variance for p in parts]))

    def prior_marginals(self, h: Float[Tensor, "B Q"], state: HeadState) -> Marginals:
        """The same under the prior."""
        h = self._enter(h)
        parts = [
            bank.gps.prior_tables(prior, h.dtype).at(p, self.interpolation)
            for bank, prior, p in zip(self.members(), state.priors, self._positions(h), strict=True)
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
        _require_positive("num_samples", num_samples)
        h = self._enter(h)
        state = state or self.state()
        parts = [
            interpolate(bank.gps.sample(prior, num_samples, h.dtype, generator), p)
            for bank, prior, p in zip(self.members(), state.priors, self._positions(h), strict=True)
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

    # ---------------------------------------------------------------------------------------------------- training

    def elbo(
        self,
        h: Float[Tensor, "B Q"],
        y: Tensor,
        num_data: int | float,
        sample_weight: Tensor | None = None,
        generator: torch.Generator | None = None,
        part: Part | None = None,
    ) -> ELBO:
        """The evidence lower bound per datum, estimated on a minibatch.

        Parameters
        ----------
        h, y
            Features and targets of the minibatch.
        num_data
            N: rows of the whole training set.
        sample_weight
            How much each row counts.
        generator
            Source of the noise, where samples are drawn.
        part
            Where the rows stand in the minibatch, if they are only a part of it: with equal generators, the parts then
            use the noise that the whole minibatch would.
        """
        with torch.autocast(h.device.type, enabled=False):
            h = self._enter(h)
            if h.shape[0] == 0:
                raise ValueError("Expected at least one row to estimate the bound on, got none.")
            y = self.likelihood.targets(y, h.shape[0])
            if not torch.compiler.is_compiling():
                self.likelihood.check_range(y)
                check_num_data(num_data)
            if sample_weight is not None:
                check_sample_weight(sample_weight, h.shape[0])
            state = self.state()
            if self.estimator == "joint":
                f = self.sample_functions(h, self.num_samples, generator, state)
                expected = expectation_over_samples(self.likelihood, self.mixing, f, y)
            else:
                marginals = self.marginals(h, state)
                expected = expectation_over_marginals(
                    self.likelihood, self.mixing, marginals, y, self.num_samples, generator, part
                )
            return evidence_lower_bound(expected, self.kl(state), num_data, sample_weight)

    # -------------------------------------------------------------------------------------------------- prediction

    def latents(self, h: Float[Tensor, "B Q"], state: HeadState | None = None) -> LatentPoints:
        """Points that stand for q(g) of each row."""
        return latent_points(self.likelihood, self.mixing, self.marginals(h, state), self.normal_points)

    def predict_proba(self, h: Float[Tensor, "B Q"], state: HeadState | None = None) -> Float[Tensor, "B C"]:
        """Class probabilities; deterministic, and no row depends on another."""
        if not self.likelihood.is_classifier:
            raise ValueError(
                f"Expected a likelihood of classes for predict_proba, got {type(self.likelihood).__name__}: use "
                f"predict for the mean and variance of the targets."
            )
        known = state or self.state()
        return self._in_parts(h, lambda part: predictive_probabilities(self.likelihood, self.latents(part, known)))

    def predict(self, h: Float[Tensor, "B Q"], state: HeadState | None = None) -> Prediction:
        """Mean and variance of the targets."""
        if self.likelihood.is_classifier:
            raise ValueError(
                f"Expected a likelihood of real targets or counts for predict, got {type(self.likelihood).__name__}: "
                f"use predict_proba for class probabilities."
            )
        known = state or self.state()
        return self._in_parts(h, lambda part: predictive_moments(self.likelihood, self.latents(part, known)))

    def log_predictive(self, h: Float[Tensor, "B Q"], y: Tensor, state: HeadState | None = None) -> Float[Tensor, "B"]:
        """Log p(y_i | x_i) of each row."""
        with torch.autocast(h.device.type, enabled=False):
            h = self._enter(h)
            y = self.likelihood.targets(y, h.shape[0])
            self.likelihood.check_range(y)
            return predictive_log_density(self.likelihood, self.mixing, self.marginals(h, state), self.normal_points, y)

    def uncertainty(self, h: Float[Tensor, "B Q"], state: HeadState | None = None) -> Uncertainty:
        """Where the uncertainty of each row's prediction comes from."""
        known = state or self.state()

        def split(part: Tensor) -> Uncertainty:
            posterior, prior = self.marginals(part, known), self.prior_marginals(part, known)
            points = latent_points(self.likelihood, self.mixing, posterior, self.normal_points)
            return uncertainty(self.likelihood, self.mixing, points, posterior, prior, self._share_left(part))

        return self._in_parts(h, split)

    def forward(self, h: Float[Tensor, "B Q"]) -> Float[Tensor, "B C"]:
        """What the layer that this head replaces gave: logits, of which softmax or sigmoid are the predictive
        probabilities, or the mean of other targets.
        """
        if self.likelihood.is_classifier:
            return self.likelihood.logits(self.predict_proba(h))
        return self.predict(h).mean

    # ---------------------------------------------------------------------------------------------------- internal

    def members(self) -> list["Bank"]:
        """The GPs by their number of dimensions, with the features that they see."""
        return [bank for bank in self.banks if isinstance(bank, Bank)]

    def _in_parts(self, h: Tensor, function: Callable[[Tensor], Any]) -> Any:
        """Call a function of rows on as many at a time as the latent points of each leave room for."""
        with torch.autocast(h.device.type, enabled=False):
            room = POINTS_IN_CACHE if h.device.type == "cpu" else POINTS_IN_MEMORY
            at_once = max(1, room // (len(self.normal_points) * self.num_outputs))
            if torch.compiler.is_compiling() or len(h) <= at_once:
                return function(h)
            parts = [function(part) for part in h.split(at_once)]
            if isinstance(parts[0], Tensor):
                return torch.cat(parts)
            return type(parts[0])(*(torch.cat(fields) for fields in zip(*parts, strict=True)))

    def _dtype(self) -> torch.dtype:
        return torch.promote_types(self.mixing.weight.dtype, torch.float32)

    def _enter(self, h: Tensor) -> Tensor:
        """Check the features and bring them to the head's precision, which is never below float32."""
        if h.dim() != 2 or h.shape[1] != self.num_features:
            raise ValueError(f"Expected features of shape (rows, {self.num_features}), got {tuple(h.shape)}.")
        # Where all are finite, their sum nearly always is, and one number shows it.
        if not torch.compiler.is_compiling() and not math.isfinite(h.detach().sum()) and not bool(h.isfinite().all()):
            row = int((~torch.isfinite(h)).any(1).nonzero()[0])
            raise NonFiniteFeaturesError(
                f"Expected finite features, got NaN or infinity in row {row}: check the inputs and the network's "
                f"weights."
            )
        return h.to(self._dtype())

    def _positions(self, h: Tensor) -> list[Tensor]:
        """Positions on the lattice, (B, J, D) for each bank."""
        z = self.bounding(h)
        return [bank.positions(z) for bank in self.members()]

    def _share_left(self, h: Tensor) -> Tensor:
        """What the data had left of each GP's variance when its prior was recentred."""
        places = self._positions(self._enter(h))
        parts = [interpolate(bank.gps.share_left, p) for bank, p in zip(self.members(), places, strict=True)]
        return self._in_order(parts).clamp(0, 1)

    def _in_order(self, parts: list[Tensor]) -> Tensor:
        """Join the banks' GPs along the last dimension, in the order of the groups."""
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)[..., self.gp_order]

    def _covariance(self, h: Tensor, other: Tensor, gp: int, prior: bool) -> Tensor:
        if not 0 <= gp < self.num_gps:
            raise ValueError(f"Expected a GP from 0 to {self.num_gps - 1}, got {gp}.")
        h, other = self._enter(h), self._enter(other)
        place = int(self.gp_order[gp])
        for bank, left, right in zip(self.members(), self._positions(h), self._positions(other), strict=True):
            if place < bank.gps.num_gps:
                gps = bank.gps
                covariance = gps.prior_covariance if prior else gps.posterior_covariance
                return covariance(left, right, gps.prior())[place].to(h.dtype)
            place -= bank.gps.num_gps
        raise AssertionError("every GP is in a bank")


def _require_positive(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"Expected {name} of at least 1, got {value}.")


def _require_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"Expected {name} to be one of {', '.join(choices)}, got {value!r}.")
