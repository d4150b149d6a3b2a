"""One training step (forward, backward, Adam) with the head against the network alone, and gpytorch's head beside it.

    python benchmarks/step.py [--rows 5000] [--repeats 31]

The network is the paper's for the airline task, 8-1000-1000-500-50 with 2 outputs. All steps of a round run one after
the other; reported are the median over rounds of the ratio to the network alone, and its quartiles.
"""

import argparse
import warnings
from collections.abc import Callable

import torch
from measure import interleaved, ratios, save
from torch import nn

from svdkl import MLP, SVDKL

HIDDEN = (1000, 1000, 500)
CONFIGURATIONS = [
    # name, GPs, grid, limit of the ratio
    ("J=2 m=70", 2, 70, 1.05),
    ("J=2 m=400", 2, 400, 1.10),
    ("J=50 m=64", 50, 64, 1.25),
]


def plain_step(x: torch.Tensor, y: torch.Tensor) -> Callable[[], object]:
    net = nn.Sequential(MLP(8, HIDDEN, 50), nn.ReLU(), nn.Linear(50, 2))
    optimiser = torch.optim.Adam(net.parameters(), fused=True)

    def step() -> None:
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimiser.step()

    return step


def features_for(num_gps: int) -> nn.Module:
    """The paper's form ends in two features; the other one puts GPs on all fifty."""
    return nn.Sequential(MLP(8, HIDDEN, 50), nn.ReLU(), nn.Linear(50, 2)) if num_gps == 2 else MLP(8, HIDDEN, 50)


def svdkl_step(x: torch.Tensor, y: torch.Tensor, num_gps: int, grid_size: int) -> Callable[[], object]:
    model = SVDKL(features_for(num_gps), num_gps, 2, grid_size=grid_size)
    with torch.no_grad():
        model.head.bounding.set_ranges(model.net(x))
    optimiser = torch.optim.Adam(model.parameters(), fused=True)

    def step() -> None:
        optimiser.zero_grad()
        (-model.elbo(x, y, num_data=1_000_000).value).backward()
        optimiser.step()

    return step


def gpytorch_step(x: torch.Tensor, y: torch.Tensor, num_gps: int, grid_size: int) -> Callable[[], object]:
    """Gpytorch's own SV-DKL: an independent GP for each feature on a grid, softmax with mixing weights."""
    import gpytorch
    from gpytorch.variational import (
        CholeskyVariationalDistribution,
        GridInterpolationVariationalStrategy,
        IndependentMultitaskVariationalStrategy,
    )

    class Layer(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            q = CholeskyVariationalDistribution(grid_size, batch_shape=torch.Size([num_gps]))
            base = GridInterpolationVariationalStrategy(self, grid_size, [(-10.0, 10.0)], q)
            super().__init__(IndependentMultitaskVariationalStrategy(base, num_tasks=num_gps))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, z: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(z), self.covar_module(z))

    net, layer = features_for(num_gps), Layer()
    scale = gpytorch.utils.grid.ScaleToBounds(-10.0, 10.0)
    likelihood = gpytorch.likelihoods.SoftmaxLikelihood(num_features=num_gps, num_classes=2)
    bound = gpytorch.mlls.VariationalELBO(likelihood, layer, num_data=1_000_000)
    parameters = [*net.parameters(), *layer.parameters(), *likelihood.parameters()]
    optimiser = torch.optim.Adam(parameters, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        features = scale(net(x)).transpose(-1, -2).unsqueeze(-1)
        with gpytorch.settings.num_likelihood_samples(1):
            (-bound(layer(features), y)).backward()
        optimiser.step()

    return step


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=5000)
    arguments.add_argument("--repeats", type=int, default=31)
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    x, y = torch.randn(options.rows, 8), torch.randint(2, (options.rows,))

    print(
        f"one step, {options.rows} rows, network 8-1000-1000-500-50 with 2 outputs, {torch.get_num_threads()} threads"
    )
    result: dict[str, object] = {"rows": options.rows, "repeats": options.repeats}
    for name, num_gps, grid_size, limit in CONFIGURATIONS:
        steps = {
            "network alone": plain_step(x, y),
            "svdkl": svdkl_step(x, y, num_gps, grid_size),
            "gpytorch": gpytorch_step(x, y, num_gps, grid_size),
        }
        table = ratios(interleaved(steps, options.repeats), "network alone")
        result[name] = {**table, "limit": limit}
        for system, row in table.items():
            verdict = f"  (limit {limit:.2f})" if system == "svdkl" else ""
            print(
                f"{name:10s} {system:14s} {row['milliseconds']:8.1f} ms   x{row['ratio']:.3f} "
                f"[{row['ratio_low']:.3f}, {row['ratio_high']:.3f}]{verdict}"
            )
    save("step", result)


if __name__ == "__main__":
    main()
