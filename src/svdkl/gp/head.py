"""The Gaussian process head: from features h to the distribution of y."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from svdkl.gp.additive import AdditiveGPs, HeadState, not_a_choice, not_positive
from svdkl.gp.elbo import (
    ELBO,
    Part,
    evidence_lower_bound,
    expectation_over_marginals,
    expectation_over_samples,
)
from svdkl.gp.familiarity import Familiarity
from svdkl.gp.head_protocol import Head, ParameterRoles
from svdkl.gp.kernels import KernelLike
from svdkl.gp.mixing import Mixing
from svdkl.gp.prediction import (
    LatentPoints,
    Uncertainty,
    latent_points,
    predictive_log_density,
    uncertainty,
)
from svdkl.gp.quadrature import normal_points
from svdkl.likelihoods import LikelihoodLike, build_likelihood
from svdkl.shapes import Float, Tensor

ESTIMATORS = ("marginal", "joint")
LAYOUTS = ("features", "outputs")
POINTS_OF_OUTPUTS, POINTS_OF_GPS = 64, 128  # points of a prediction: more where they have more dimensions
MOST_POINTS = 1024  # points at most for the sake of exact moments, since their number multiplies a prediction's cost
# Latent values held at a time in a prediction: as many as stay in a CPU's cache, elsewhere 128 MiB of float32.
POINTS_IN_CACHE, POINTS_IN_MEMORY = 2**20, 2**25


class GPHead(Head):
    """Additive Gaussian processes on features, mixed linearly into outputs with a likelihood.

    Parameters
    ----------
    num_features
        Q, the number of features.
    num_outputs
        C, the number of classes or targets.
    likelihood
        "softmax", "bernoulli", "gaussian", "student_t", "poisson", "negative_binomial", a
        :class:`~svdkl.likelihoods.Likelihood`, or a function from g to a ``torch.distributions.Distribution``.
    dims_per_gp, groups
        D features a GP, in consecutive groups; or the groups themselves, ``[(0,), (1, 2), ...]``, of any sizes.
    gps
        "features": GPs on groups of features, a mixing matrix of C x J. "outputs": the paper's form, in which the
        network ends in C features, one GP an output, and mixing starts at the identity.
    grid_size
        m_d, the number of lattice points: one number for all axes, or one for each.
    kernel
        "rbf", "matern12", "matern32", "matern52", "rational_quadratic", "periodic", "spectral_mixture", a kernel
        module, a stationary gpytorch kernel; or one for each axis.
    posterior
        Family of q(u): "cholesky", "banded", "mean_field", or "auto": Cholesky for axes below 256 points, banded for
        longer ones.
    whitened
        Whether q is parameterised relative to the prior.
    prior
        Form of the prior's factors: "toeplitz", "circulant", or "auto": circulant for axes of 256 points and more.
    estimator, num_samples
        How training estimates the expected log likelihood: "marginal", row by row, or "joint", by draws of whole
        functions; with T samples where samples are needed.
    num_points
        Quasi-random points of a prediction, where the likelihood needs them; at least two for each of their dimensions,
        up to 1,024. Their dimensions are the outputs, or the GPs if these are fewer than twice as many. None stands
        for 64 points in the first case, for 128 in the second.
    interpolation
        How marginals are computed: "eager", "cpu" (compiled loops), "triton" (GPUs), or "auto", the fastest on the
        features' device. All give the same numbers, up to rounding.
    learn_bounds
        Whether the features' ranges are trained, starting from the ranges that the data set.
    jitter
        Relative jitter of the prior's factors.
    posterior_scale
        Standard deviation of q(u) at the start, relative to the prior's where whitened.
    familiarity
        The memory of which features come together; None for one with the default numbers.
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
        num_points: int | None = None,
        interpolation: str = "auto",
        learn_bounds: bool = False,
        jitter: float = 1e-6,
        posterior_scale: float = 0.01,
        familiarity: Familiarity | None = None,
    ) -> None:
        if estimator not in ESTIMATORS:
            raise not_a_choice("estimator", estimator, ESTIMATORS)
        if gps not in LAYOUTS:
            raise not_a_choice("gps", gps, LAYOUTS)
        if num_outputs < 1:
            raise not_positive("num_outputs", num_outputs)
        if num_samples < 1:
            raise not_positive("num_samples", num_samples)
        if num_points is not None and (num_points < 2 or num_points % 2):
            raise ValueError(f"Expected num_points to be even and at least 2 (points come in pairs), got {num_points}.")
        super().__init__()
        self.num_features = num_features
        self.num_outputs = num_outputs
        self.layout = gps
        self.estimator = estimator
        self.num_samples = num_samples
        self.gps = AdditiveGPs(
            num_features=num_features,
            dims_per_gp=dims_per_gp,
            groups=groups,
            grid_size=grid_size,
            kernel=kernel,
            posterior=posterior,
            whitened=whitened,
            prior=prior,
            interpolation=interpolation,
            learn_bounds=learn_bounds,
            jitter=jitter,
            posterior_scale=posterior_scale,
        )
        num_gps = self.gps.num_gps
        if gps == "outputs" and not (num_features == num_outputs == num_gps):
            raise ValueError(
                f"Expected one feature and one GP for each of the {num_outputs} outputs with gps='outputs', got "
                f"{num_features} features in {num_gps} groups: end the network in {num_outputs} features, or use "
                f"gps='features'."
            )
        self.familiarity = familiarity or Familiarity(num_features)
        self.mixing = Mixing(num_gps, num_outputs)
        self.likelihood = build_likelihood(likelihood, num_outputs)
        # Points have a dimension for each output where outputs are much fewer than GPs, else for each GP. With two
        # points a dimension their second moments are exact.
        num_dims = num_outputs if 2 * num_outputs <= num_gps else num_gps
        num_points = num_points or (POINTS_OF_OUTPUTS if num_dims < num_gps else POINTS_OF_GPS)
        num_points = max(num_points, min(2 * num_dims, MOST_POINTS))
        self.register_buffer("normal_points", normal_points(num_points, num_dims).float(), persistent=False)
        self.normal_points: Tensor

    def state(self) -> HeadState:
        """Factorise priors and posteriors at the current parameters."""
        return self.gps.state()

    def elbo(
        self,
        h: Float[Tensor, "B Q"],
        y: Tensor,
        num_data: int | float,
        sample_weight: Tensor | None = None,
        generator: torch.Generator | None = None,
        part: Part | None = None,
    ) -> ELBO:
        """The evidence lower bound per datum, from a minibatch; see :meth:`svdkl.gp.head_protocol.Head.elbo`."""
        with torch.autocast(h.device.type, enabled=False):
            h = self.gps.enter(h)
            y = self._minibatch_targets(y, len(h), num_data, sample_weight)
            state = self.state()
            if self.estimator == "joint":
                f = self.gps.sample_functions(h, self.num_samples, generator, state)
                expected = expectation_over_samples(self.likelihood, self.mixing, f, y)
            else:
                marginals = self.gps.marginals(h, state)
                expected = expectation_over_marginals(
                    self.likelihood, self.mixing, marginals, y, self.num_samples, generator, part
                )
            return evidence_lower_bound(expected, self.gps.kl(state), num_data, sample_weight)

    def latents(self, h: Float[Tensor, "B Q"], state: HeadState | None = None) -> LatentPoints:
        """Points that stand for q(g) of each row."""
        return latent_points(self.likelihood, self.mixing, self.gps.marginals(h, state), self.normal_points)

    def latent_gaussian(
        self, h: Float[Tensor, "B Q"], state: HeadState | None = None
    ) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B C"]]:
        """Mean and variance of g for each row."""
        return self.mixing.gaussian(*self.gps.marginals(h, state))

    def latent_draws(
        self,
        h: Float[Tensor, "B Q"],
        num_samples: int,
        generator: torch.Generator | None = None,
        state: HeadState | None = None,
    ) -> Float[Tensor, "T B C"]:
        """Draws of g; each draw is one function of all rows."""
        return self.mixing(self.gps.sample_functions(h, num_samples, generator, state))

    def log_predictive(self, h: Float[Tensor, "B Q"], y: Tensor, state: HeadState | None = None) -> Float[Tensor, "B"]:
        """Return log p(y_i | x_i) for each row."""
        h = self.gps.enter(h)
        y = self.likelihood.targets(y, h.shape[0])
        self.likelihood.check_range(y)
        known = state or self.state()

        def density(part: Tensor, targets: Tensor) -> Tensor:
            marginals = self.gps.marginals(part, known)
            return predictive_log_density(self.likelihood, self.mixing, marginals, self.normal_points, targets)

        return self._in_parts(h, density, y)

    def uncertainty(self, h: Float[Tensor, "B Q"], state: HeadState | None = None) -> Uncertainty:
        """Where the uncertainty of each row's prediction comes from."""
        h = self.gps.enter(h)
        covariances = 2 * len(self.familiarity.rows)  # numbers that a row needs, in float64
        strangeness = self._in_parts(h, self.familiarity.strangeness, values=covariances)
        return self._uncertainty(h, strangeness, state)

    @torch.no_grad()
    def usual_scores(self) -> Float[Tensor, "B"]:
        """``ood_score`` of each training row that is remembered, as if that row had not been seen.

        New rows like those of training have such scores.
        """
        return self._uncertainty(self.gps.enter(self.familiarity.rows), self.familiarity.usual()).ood_score

    def roles(self) -> ParameterRoles:
        """All parameters by their role in training."""
        lattices = [bank.gps for bank in self.gps.members()]
        return ParameterRoles(
            weights=[],
            outputs=[*self.mixing.parameters(), *self.likelihood.parameters(), *self.gps.bounding.parameters()],
            posterior=[p for gps in lattices for p in gps.posterior.parameters()],
            kernels=[p for gps in lattices for p in gps.kernel.parameters()],
        )

    def _uncertainty(self, h: Tensor, strangeness: Tensor, state: HeadState | None = None) -> Uncertainty:
        known = state or self.state()

        def split(part: Tensor, strange: Tensor) -> Uncertainty:
            posterior, prior = self.gps.marginals(part, known), self.gps.prior_marginals(part, known)
            points = latent_points(self.likelihood, self.mixing, posterior, self.normal_points)
            share_left = self.gps.share_left(part)
            return uncertainty(self.likelihood, self.mixing, points, posterior, prior, share_left, strange)

        return self._in_parts(h, split, strangeness)

    def _in_parts(self, h: Tensor, function: Callable[..., Any], *others: Tensor, values: int = 0) -> Any:
        """Call a function of rows on as many rows at a time as there is room for.

        A row takes as many numbers as its latent points have, or ``values`` if that is more.
        """
        with torch.autocast(h.device.type, enabled=False):
            room = POINTS_IN_CACHE if h.device.type == "cpu" else POINTS_IN_MEMORY
            at_once = max(1, room // max(len(self.normal_points) * self.num_outputs, values))
            if torch.compiler.is_compiling() or len(h) <= at_once:
                return function(h, *others)
            blocks = zip(*(tensor.split(at_once) for tensor in (h, *others)), strict=True)
            parts = [function(*block) for block in blocks]
            if isinstance(parts[0], Tensor):
                return torch.cat(parts)
            return type(parts[0])(*(torch.cat(fields) for fields in zip(*parts, strict=True)))
