"""MC-GP, on pyro: "MCMC for variationally sparse Gaussian processes" (Hensman et al., 2015).

The chain samples the whitened inducing values v, u = R v with K_mm = R R^T, and the kernels' hyperparameters; the
inducing inputs stay. The log joint is log p(v) + log p(θ) + Σ_i E log p(y_i | f_i), with f_i | u Gaussian and the
expectation by quadrature. Each of the two classes has one GP on one feature of the network, as in SV-DKL. K_mm is
dense: O(m^3 + B m^2) for each GP.

A step is one leapfrog step of pyro's HMC: the network's features of B rows, then one gradient of the log joint with
respect to v and the hyperparameters. The network's weights are not sampled, so that a step has no backward pass through
the network, which the steps of all others have.
"""

import pyro
import torch
from pyro.distributions import LogNormal, Normal
from pyro.infer import HMC

from svdkl.gp.quadrature import expectation_1d
from svdkl.shapes import Float, Tensor
from svdkl_research.bench.setting import NUM_DATA, Setting, random_rows
from svdkl_research.bench.systems.network import airline_network
from svdkl_research.bench.timing import Step

REACH = 3.0  # inducing inputs lie within so many standard deviations of a feature, on both sides
JITTER = 1e-6
STEP_SIZE = 1e-4


def sampling(setting: Setting) -> Step:
    """Make a leapfrog step, each from where the last one ended."""
    net = airline_network(setting.gps)
    x, y = random_rows(setting)
    sign = (2 * y.double() - 1)[:, None]
    inducing = torch.linspace(-REACH, REACH, setting.axis, dtype=torch.float64)
    with torch.no_grad():
        h = net(x)
        centre, scale = h.mean(0), h.std(0)
    zeros, zero_each = torch.zeros(setting.gps, setting.axis).double(), torch.zeros(setting.gps).double()

    def model() -> None:
        with torch.no_grad():
            features = ((net(x) - centre) / scale).double()
        v = pyro.sample("v", Normal(zeros, 1.0).to_event(2))
        lengthscale = pyro.sample("lengthscale", LogNormal(zero_each, 1.0).to_event(1))
        amplitude = pyro.sample("amplitude", LogNormal(zero_each, 1.0).to_event(1))
        mean, variance = conditional(features.T, inducing, v, lengthscale, amplitude)
        # The softmax of two classes sees g_1 - g_0 alone.
        difference, spread = (mean[1] - mean[0])[:, None], (variance[1] + variance[0])[:, None]
        fit = expectation_1d(lambda d: torch.nn.functional.logsigmoid(sign * d), difference, spread)
        pyro.factor("rows", NUM_DATA / setting.rows * fit.sum())

    kernel = HMC(model, step_size=STEP_SIZE, num_steps=1, adapt_step_size=False, adapt_mass_matrix=False)
    kernel.setup(0)
    place = kernel.initial_params

    def step() -> None:
        nonlocal place
        place = kernel.sample(place)

    return step


def conditional(
    h: Float[Tensor, "J B"],
    inducing: Float[Tensor, "m"],
    v: Float[Tensor, "J m"],
    lengthscale: Float[Tensor, "J"],
    amplitude: Float[Tensor, "J"],
) -> tuple[Float[Tensor, "J B"], Float[Tensor, "J B"]]:
    """Return mean and variance of each f_i | u = R v, under RBF kernels."""
    variance, width = amplitude.square()[:, None, None], lengthscale[:, None, None]

    def covariance(other: Tensor) -> Tensor:
        return variance * torch.exp(-0.5 * ((inducing[:, None] - other[..., None, :]) / width).square())

    K = covariance(inducing) + JITTER * variance * torch.eye(len(inducing), dtype=inducing.dtype)
    R = torch.linalg.cholesky(K)
    # W = R⁻¹ K_mn: the mean is Wᵀ v, the variance k_nn - Σ_p W_pi².
    W = torch.linalg.solve_triangular(R, covariance(h), upper=False)
    return torch.einsum("jmb,jm->jb", W, v), (variance[:, 0] - W.square().sum(1)).clamp(min=0)
