"""KLSP-GP: sparse variational GPs (Hensman et al., 2015), by gpytorch, on the features of the network.

As in SV-DKL each of the J GPs sees one feature, and the network is trained with them. Unlike there, the m inducing
points lie anywhere and are learned, so that covariances are dense: O(m^3 + B m^2) for each GP.
"""

import torch

from svdkl.shapes import Tensor
from svdkl_research.bench.setting import NUM_DATA, Setting, random_rows
from svdkl_research.bench.systems.network import airline_network
from svdkl_research.bench.systems.training_step import training_step
from svdkl_research.bench.timing import Step
from svdkl_research.rivals.klsp_gp import expected_log_likelihood
from svdkl_research.rivals.sparse_gp import rbf_gps, single_precision

REACH = 3.0  # inducing points start within so many standard deviations of a feature, on both sides


def training(setting: Setting) -> Step:
    """Make a training step of network and GPs, one GP a class, on the bound with samples of each row's marginal."""
    net = airline_network(setting.gps)
    x, y = random_rows(setting)
    with torch.no_grad():
        h = net(x)
        centre, scale = h.mean(0), h.std(0)
    gps = rbf_gps(torch.linspace(-REACH, REACH, setting.axis)[:, None], setting.gps, lengthscale=0.5)
    generator = torch.Generator().manual_seed(0)

    def loss() -> Tensor:
        features = (net(x) - centre) / scale
        with single_precision():
            latents = gps(features.T.unsqueeze(-1))
            fit = expected_log_likelihood(latents.mean.T, latents.variance.T, y, generator).mean()
            return gps.variational_strategy.kl_divergence().sum() / NUM_DATA - fit

    return training_step(loss, [*net.parameters(), *gps.parameters()])
