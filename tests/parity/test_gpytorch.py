"""The same numbers as gpytorch's IndependentMultitaskVariationalStrategy(GridInterpolationVariationalStrategy).

Three of gpytorch's habits are met half-way. Its lattice spans a little more than the bounds it is given, so positions
and lengthscales are converted through the lattice's spacing. It adds an absolute jitter of 1e-3 to the prior, where
ours is relative to the variance. Its softmax likelihood transposes its input when B = J, so B and J differ.
"""

import math
from collections.abc import Iterator

import gpytorch
import numpy as np
import pytest
import torch
from dense import kron
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    GridInterpolationVariationalStrategy,
    IndependentMultitaskVariationalStrategy,
)
from linear_operator.utils.interpolation import left_interp
from tolerances import close
from torch import Tensor

from svdkl import GPHead
from svdkl.gp.lattice_gps import LatticeGPs

pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # gpytorch's interpolation

SIZE, ROWS, NUM_GPS, NUM_DATA = 14, 11, 4, 230.0
GPYTORCH_JITTER = 1e-3
PEER_KERNELS = {
    "rbf": RBFKernel,
    "matern12": lambda **options: MaternKernel(nu=0.5, **options),
    "matern32": lambda **options: MaternKernel(nu=1.5, **options),
    "matern52": lambda **options: MaternKernel(nu=2.5, **options),
}


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    """gpytorch builds its lattice in the default precision."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class Peer(gpytorch.models.ApproximateGP):
    """gpytorch's model: J GPs of one dimension on its lattice, with random hyperparameters and a random q(u)."""

    def __init__(self, kernel: str, variances: Tensor) -> None:
        batch = torch.Size([len(variances)])
        q = CholeskyVariationalDistribution(SIZE, batch_shape=batch)
        grid = GridInterpolationVariationalStrategy(self, SIZE, [(-1.0, 1.0)], q)
        super().__init__(IndependentMultitaskVariationalStrategy(grid, num_tasks=len(variances)))
        self.mean = gpytorch.means.ZeroMean()
        self.kernel = ScaleKernel(PEER_KERNELS[kernel](batch_shape=batch), batch_shape=batch)
        self.kernel.outputscale = variances
        self.kernel.base_kernel.lengthscale = (0.15 + 0.5 * torch.rand(batch))[:, None, None]
        q.variational_mean.data.normal_()
        q.chol_variational_covar.data.copy_(random_factor(len(variances), SIZE))
        self.grid, self.q = grid, q
        grid.variational_params_initialized.fill_(1)

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    @property
    def spacing(self) -> float:
        return float(self.grid.grid[1, 0] - self.grid.grid[0, 0])

    @property
    def relative_lengthscale(self) -> Tensor:
        """In units of the whole axis."""
        return self.kernel.base_kernel.lengthscale.flatten() / (self.spacing * (SIZE - 1))

    def inputs(self, h: Tensor) -> Tensor:
        """Feature j for GP j: (J, B, 1)."""
        return h.T.unsqueeze(-1)


def random_factor(num_gps: int, size: int) -> Tensor:
    """Lower triangular, with a positive diagonal."""
    lower = 0.2 * torch.randn(num_gps, size, size).tril(-1)
    return lower + torch.diag_embed(0.1 + torch.rand(num_gps, size))


@torch.no_grad()
def take_over(gps: LatticeGPs, peer: Peer, members: slice) -> None:
    """Set hyperparameters and q(u) to some of the peer's."""
    gps.kernel.log_variance.copy_(peer.kernel.outputscale[members].log())
    gps.kernel.axes[0].log_lengthscale.copy_(peer.relative_lengthscale[members].log())
    gps.posterior.mean.copy_(peer.q.variational_mean[members])
    gps.posterior.axes[0].assign(peer.q.chol_variational_covar[members])


def single_gps(peer: Peer, kernel: str) -> list[LatticeGPs]:
    """One module a GP: each with the relative jitter that is gpytorch's absolute one at its variance."""
    result = []
    for j, variance in enumerate(peer.kernel.outputscale.tolist()):
        gps = LatticeGPs(1, (SIZE,), kernel, whitened=False, prior="toeplitz", jitter=GPYTORCH_JITTER / variance)
        take_over(gps, peer, slice(j, j + 1))
        result.append(gps)
    return result


def make_head(peer: Peer, num_outputs: int, **options) -> GPHead:
    """All GPs in one head, whose jitter is gpytorch's if all variances are the first one's."""
    jitter = GPYTORCH_JITTER / peer.kernel.outputscale[0].item()
    num_gps = len(peer.kernel.outputscale)
    head = GPHead(num_gps, num_outputs, grid_size=SIZE, whitened=False, prior="toeplitz", jitter=jitter, **options)
    take_over(head.gps.banks[0].gps, peer, slice(None))
    head.gps.bounding = Straight(peer.spacing * (SIZE - 3) / 2)
    return head


class Straight(torch.nn.Module):
    """z with which positions, (m - 1) / 2 + (m - 3) / 2 * z, are those of gpytorch: (m - 1) / 2 + h / spacing."""

    def __init__(self, scale: float):
        super().__init__()
        self.location, self.scale = torch.zeros(()), scale

    def forward(self, h: Tensor) -> Tensor:
        return h / self.scale


def make_peer(kernel: str = "rbf", num_gps: int = NUM_GPS, equal_variances: bool = False) -> Peer:
    variances = torch.full((num_gps,), 1.7) if equal_variances else 0.4 + 2 * torch.rand(num_gps)
    return Peer(kernel, variances)


def features(num_gps: int = NUM_GPS) -> Tensor:
    """Coordinates within the lattice."""
    return 1.5 * torch.rand(ROWS, num_gps) - 0.75


def make_softmax(num_gps: int, num_classes: int, head: GPHead) -> gpytorch.likelihoods.SoftmaxLikelihood:
    """gpytorch's likelihood and the head with the same mixing weights; gpytorch has no bias."""
    likelihood = gpytorch.likelihoods.SoftmaxLikelihood(num_features=num_gps, num_classes=num_classes)
    likelihood.mixing_weights.data.normal_(std=0.5)
    head.mixing.weight.data.copy_(likelihood.mixing_weights)
    return likelihood


@pytest.mark.parametrize("kernel", PEER_KERNELS)
def test_kl_of_each_gp(kernel: str) -> None:
    peer = make_peer(kernel)
    ours = torch.cat([gps.kl(gps.prior()) for gps in single_gps(peer, kernel)])
    close(ours, peer.grid.kl_divergence(), "jittered")
    close(ours.sum(), peer.variational_strategy.kl_divergence(), "jittered")


def test_gradients_of_the_kl() -> None:
    peer = make_peer()
    peer.variational_strategy.kl_divergence().backward()
    raw = peer.kernel.base_kernel.raw_lengthscale
    for j, gps in enumerate(single_gps(peer, "rbf")):
        gps.kl(gps.prior()).sum().backward()
        close(gps.posterior.mean.grad[0], peer.q.variational_mean.grad[j], "jittered")
        factor, expected = gps.posterior.axes[0], peer.q.chol_variational_covar.grad[j]
        close(factor.raw.grad[0].tril(-1), expected.tril(-1), "jittered")
        # Ours is the gradient by log l, theirs by raw with l = softplus(raw).
        by_lengthscale = raw.grad[j] / raw[j].detach().sigmoid()
        close(
            gps.kernel.axes[0].log_lengthscale.grad,
            (by_lengthscale * peer.kernel.base_kernel.lengthscale[j].detach()).flatten(),
            "jittered",
        )


def test_marginals_and_covariances_of_f() -> None:
    peer = make_peer()
    head, h = make_head(peer, 3), features()
    q = peer(peer.inputs(h))
    close(head.gps.marginals(h).mean, q.mean)
    close(head.gps.marginals(h).variance, q.variance)
    full = peer.grid(peer.inputs(h), diag=False).covariance_matrix
    close(torch.stack([head.gps.latent_covariance(h, h, gp) for gp in range(NUM_GPS)]), full)


def test_deep_kernel() -> None:
    """M K M^T, with gpytorch's K and gpytorch's interpolation."""
    peer = make_peer(equal_variances=True)
    head, h = make_head(peer, 3), features()
    index, value = peer.grid._compute_grid(peer.inputs(h))
    prior = peer.grid.prior_distribution.covariance_matrix
    expected = left_interp(index, value, left_interp(index, value, prior).mT)
    close(torch.stack([head.gps.kernel_matrix(h, h, gp) for gp in range(NUM_GPS)]), expected)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_joint_samples_and_their_likelihood(num_classes: int) -> None:
    """The paper's estimator: the same draws of u, interpolated, mixed and scored by either."""
    peer = make_peer(equal_variances=True)
    head, h = make_head(peer, num_classes, estimator="joint", num_samples=5), features()
    likelihood = make_softmax(NUM_GPS, num_classes, head)
    y = torch.randint(num_classes, (ROWS,))

    noise = torch.randn(5, NUM_GPS, SIZE, generator=torch.Generator().manual_seed(3))
    u = peer.q.variational_mean + torch.einsum("jab,tjb->tja", peer.q.chol_variational_covar.tril(), noise)
    index, value = peer.grid._compute_grid(peer.inputs(h))
    f = torch.stack([left_interp(index, value, draw.unsqueeze(-1)).squeeze(-1) for draw in u]).mT
    close(head.gps.sample_functions(h, 5, torch.Generator().manual_seed(3)), f)

    elbo = head.elbo(h, y, NUM_DATA, generator=torch.Generator().manual_seed(3))
    expected = likelihood(f).log_prob(y).mean()
    close(elbo.expected_log_likelihood, expected)
    close(elbo.value, expected - peer.variational_strategy.kl_divergence() / NUM_DATA, "jittered")


def test_marginal_samples_and_their_likelihood() -> None:
    peer = make_peer(equal_variances=True)
    head, h = make_head(peer, 3, num_samples=6), features()
    likelihood = make_softmax(NUM_GPS, 3, head)
    y = torch.randint(3, (ROWS,))

    q = peer(peer.inputs(h))
    noise = torch.randn(6, ROWS, NUM_GPS, generator=torch.Generator().manual_seed(3))
    expected = likelihood(q.mean + q.stddev * noise).log_prob(y).mean()
    elbo = head.elbo(h, y, NUM_DATA, generator=torch.Generator().manual_seed(3))
    close(elbo.expected_log_likelihood, expected)
    close(elbo.value, expected - peer.variational_strategy.kl_divergence() / NUM_DATA, "jittered")


def test_two_classes_by_quadrature_over_both_latents() -> None:
    """We integrate over g_1 - g_0 alone; here gpytorch's likelihood is integrated over f_1 and f_2."""
    peer = make_peer(num_gps=2)
    head, h = make_head(peer, 2), features(2)
    likelihood = make_softmax(2, 2, head)
    y = torch.randint(2, (ROWS,))

    q = peer(peer.inputs(h))
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.hermite_e.hermegauss(60))
    pairs = torch.cartesian_prod(nodes, nodes)[:, None, :]
    weight = torch.cartesian_prod(weights, weights).prod(-1) / (2 * math.pi)
    expected = weight @ likelihood(q.mean + q.stddev * pairs).log_prob(y)
    close(head.elbo(h, y, NUM_DATA).expected_log_likelihood, expected.mean(), "quadrature")


def test_two_classes_by_gpytorchs_own_sampling() -> None:
    """gpytorch's VariationalELBO: the mean of many estimates lies within its standard error of ours."""
    peer = make_peer(equal_variances=True)
    head, h = make_head(peer, 2), features()
    likelihood = make_softmax(NUM_GPS, 2, head)
    y = torch.randint(2, (ROWS,))

    objective = gpytorch.mlls.VariationalELBO(likelihood, peer, num_data=NUM_DATA)
    with torch.no_grad(), gpytorch.settings.num_likelihood_samples(400):
        estimates = torch.stack([objective(peer(peer.inputs(h)), y) for _ in range(50)])
    error = estimates.std() / math.sqrt(len(estimates))
    assert error < 5e-3
    assert (head.elbo(h, y, NUM_DATA).value - estimates.mean()).abs() < 4 * error


class Plane(gpytorch.models.ApproximateGP):
    """One GP of two dimensions, with no jitter: a product of jittered factors is not a jittered product."""

    def __init__(self, mean: Tensor, factor: Tensor, lengthscales: Tensor, variance: float) -> None:
        class Unjittered(GridInterpolationVariationalStrategy):
            prior_distribution = property(lambda strategy: strategy.model.forward(strategy.inducing_points))

        q = CholeskyVariationalDistribution(len(mean))
        size = math.isqrt(len(mean))
        super().__init__(Unjittered(self, size, [(-1.0, 1.0), (-1.0, 1.0)], q))
        self.mean = gpytorch.means.ZeroMean()
        self.kernel = ScaleKernel(RBFKernel(ard_num_dims=2))
        self.kernel.outputscale = variance
        grid = self.variational_strategy.grid
        self.kernel.base_kernel.lengthscale = lengthscales * (grid[-1, 0] - grid[0, 0])
        q.variational_mean.data.copy_(mean)
        q.chol_variational_covar.data.copy_(factor)
        self.variational_strategy.variational_params_initialized.fill_(1)

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


def test_two_dimensions() -> None:
    """KL and marginals of one GP on a plane.

    gpytorch numbers the inducing points with the first axis fastest, but its interpolation reads them with the last one
    fastest. So q is given to it in the one order for the KL and in the other for the marginals.
    """
    size, lengthscales, variance = 6, torch.tensor([0.15, 0.25]), 1.7
    gps = LatticeGPs(1, (size, size), whitened=False, prior="toeplitz", jitter=0.0)
    with torch.no_grad():
        gps.kernel.log_variance.fill_(math.log(variance))
        gps.posterior.mean.normal_()
        for axis, factor, lengthscale in zip(gps.kernel.axes, gps.posterior.axes, lengthscales, strict=True):
            axis.log_lengthscale.fill_(lengthscale.log())
            factor.assign(random_factor(1, size))
        mean = gps.posterior.mean[0]
        first, second = (factor.dense()[0] for factor in gps.posterior.axes)
    points_order = Plane(mean.T.flatten(), kron(second, first), lengthscales, variance)
    close(gps.kl(gps.prior())[0], points_order.variational_strategy.kl_divergence(), "jittered")

    interpolation_order = Plane(mean.flatten(), kron(first, second), lengthscales, variance)
    grid = interpolation_order.variational_strategy.grid
    h = 1.4 * torch.rand(ROWS, 2) - 0.7
    q = interpolation_order(h)
    positions = (h - grid[0]) / (grid[1] - grid[0])
    marginals = gps.tables(gps.prior(), torch.float64).at(positions[:, None])
    close(marginals.mean[:, 0], q.mean)
    close(marginals.variance[:, 0], q.variance)
