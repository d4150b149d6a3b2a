"""SV-DKL by gpytorch's own parts: a GP on a grid for each feature, and a softmax with mixing weights."""

import gpytorch
import torch
from torch import nn

from svdkl.shapes import Float, Int, Tensor
from svdkl_research.bench.setting import CLASSES, NUM_DATA, Setting, random_labels, random_rows
from svdkl_research.bench.systems.network import airline_network
from svdkl_research.bench.systems.training_step import gradient_step, training_step
from svdkl_research.bench.timing import Step

BOUND = 10.0  # the grid reaches from -BOUND to BOUND


def training(setting: Setting) -> Step:
    """Make a training step of network and GPs on the bound, with one joint sample of the functions."""
    net, layer = airline_network(setting.gps), GridLayer(setting.gps, setting.axis)
    x, y = random_rows(setting)
    return training_step(lambda: layer.loss(net(x), y), [*net.parameters(), *layer.parameters()])


def head(setting: Setting) -> Step:
    """Make a step of the bound and its gradient from given features, without an optimiser."""
    layer = GridLayer(setting.gps, setting.axis)
    h = torch.randn(setting.rows, setting.gps, requires_grad=True)
    y = random_labels(setting)
    return gradient_step(lambda: layer.loss(h, y), h, layer)


class GridLayer(nn.Module):
    """One-dimensional GPs on a grid, with their likelihood and bound."""

    def __init__(self, num_gps: int, size: int) -> None:
        super().__init__()
        self.gps = _GridGPs(num_gps, size)
        self.scale = gpytorch.utils.grid.ScaleToBounds(-BOUND, BOUND)
        self.likelihood = gpytorch.likelihoods.SoftmaxLikelihood(num_features=num_gps, num_classes=CLASSES)
        self.bound = gpytorch.mlls.VariationalELBO(self.likelihood, self.gps, num_data=NUM_DATA)

    def loss(self, h: Float[Tensor, "B J"], y: Int[Tensor, "B"]) -> Float[Tensor, ""]:
        """Return the negative bound per row of data."""
        one_a_gp = self.scale(h).transpose(-1, -2).unsqueeze(-1)
        with gpytorch.settings.num_likelihood_samples(1):
            return -self.bound(self.gps(one_a_gp), y)


class _GridGPs(gpytorch.models.ApproximateGP):  # type: ignore[misc]
    def __init__(self, num_gps: int, size: int) -> None:
        posterior = gpytorch.variational.CholeskyVariationalDistribution(size, batch_shape=torch.Size([num_gps]))
        grid = gpytorch.variational.GridInterpolationVariationalStrategy(self, size, [(-BOUND, BOUND)], posterior)
        super().__init__(gpytorch.variational.IndependentMultitaskVariationalStrategy(grid, num_tasks=num_gps))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, z: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(z), self.covar_module(z))
