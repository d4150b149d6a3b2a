"""Kernels against their formulas."""

import math

import dense
import gpytorch
import pytest
import torch

from oracles.twins import same, uniform
from svdkl.gp.kernels import RBF, build_kernel

NUM_GPS = 3
DISTANCE = torch.linspace(0, 1.3, 9, dtype=torch.float64)


def randomised(kernel):
    """Make hyperparameters float64 and different for each GP, axis and component."""
    kernel = kernel.double()
    with torch.no_grad():
        for parameter in kernel.parameters():
            parameter.add_(uniform(*parameter.shape, low=-0.4, high=0.4))
    return kernel


def rational_quadratic(k, j):
    alpha, length = k.log_alpha[j].exp(), k.log_lengthscale[j].exp()
    return (1 + DISTANCE**2 / (2 * alpha * length**2)) ** (-alpha)


def periodic(k, j):
    period, length = k.log_period[j].exp(), k.log_lengthscale[j].exp()
    return torch.exp((torch.cos(2 * math.pi * DISTANCE / period) - 1) / length**2)  # -2 sin^2 a = cos 2a - 1


def spectral_mixture(k, j):
    weights = k.weight_logits[j].exp() / k.weight_logits[j].exp().sum()
    total = torch.zeros_like(DISTANCE)
    for weight, frequency, bandwidth in zip(weights, k.log_frequency[j].exp(), k.log_bandwidth[j].exp(), strict=True):
        envelope = torch.exp(-2 * math.pi**2 * DISTANCE**2 * bandwidth**2)
        total = total + weight * envelope * torch.cos(2 * math.pi * DISTANCE * frequency)
    return total


FORMULAS = {
    **{
        name: lambda k, j, correlation=correlation: correlation(DISTANCE, k.log_lengthscale[j].exp())
        for name, correlation in dense.CORRELATIONS.items()
    },
    "rational_quadratic": rational_quadratic,
    "periodic": periodic,
    "spectral_mixture": spectral_mixture,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_axis_kernels(name):
    axis = randomised(build_kernel(name, NUM_GPS, 1)).axes[0]
    expected = torch.stack([FORMULAS[name](axis, j) for j in range(NUM_GPS)])
    same(axis(DISTANCE), expected, list(axis.parameters()))


@pytest.mark.parametrize("names", [("rbf",), ("matern52", "rbf"), ("periodic", "matern12", "spectral_mixture")])
def test_product_over_axes(names):
    """The kernel is variance * prod_d k_d, with the variance of each GP once."""
    kernel = randomised(build_kernel(names, NUM_GPS, len(names)))
    ours = math.prod(kernel.column(d, DISTANCE) for d in range(len(names)))
    expected = torch.stack(
        [
            kernel.log_variance[j].exp() * math.prod(FORMULAS[n](kernel.axes[d], j) for d, n in enumerate(names))
            for j in range(NUM_GPS)
        ]
    )
    same(ours, expected, list(kernel.parameters()))


def test_each_axis_has_hyperparameters_of_its_own():
    kernel = randomised(build_kernel(RBF(NUM_GPS, 0.3), NUM_GPS, 2))
    for d in range(2):
        column = kernel.column(d, DISTANCE) / (kernel.variance[:, None] if d == 0 else 1)
        expected = [torch.exp(-(DISTANCE**2) / (2 * length**2)) for length in kernel.axes[d].lengthscale]
        same(column, torch.stack(expected), list(kernel.parameters()))
    assert (kernel.axes[0].lengthscale != kernel.axes[1].lengthscale).all()


def test_one_gps_hyperparameters_move_that_gp_only():
    kernel = randomised(build_kernel("matern32", NUM_GPS, 1))
    moved = torch.stack(
        [
            torch.autograd.grad(kernel.column(0, DISTANCE)[j, 1:].sum(), kernel.axes[0].log_lengthscale)[0] != 0
            for j in range(NUM_GPS)
        ]
    )
    assert torch.equal(moved, torch.eye(NUM_GPS, dtype=torch.bool))


# ---------------------------------------------------------------------------------------------------------- gpytorch

GPYTORCH = {
    "rbf": (lambda **kw: gpytorch.kernels.RBFKernel(**kw), "rbf"),
    "matern32": (lambda **kw: gpytorch.kernels.MaternKernel(nu=1.5, **kw), "matern32"),
    "matern52": (lambda **kw: gpytorch.kernels.MaternKernel(nu=2.5, **kw), "matern52"),
}


@pytest.mark.parametrize("batch", [[NUM_GPS], []])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", GPYTORCH)
def test_gpytorch_kernels_pass_through(name, scaled, batch):
    make, formula = GPYTORCH[name]
    given = make(batch_shape=torch.Size(batch))
    if scaled:
        given = gpytorch.kernels.ScaleKernel(given, batch_shape=torch.Size(batch))
    given = randomised(given)
    kernel = build_kernel(given, NUM_GPS, 1).double()
    with torch.no_grad():
        kernel.log_variance.uniform_(-1, 1)
    inner = kernel.axes[0].kernel
    base = inner.base_kernel if scaled else inner
    lengths = base.lengthscale.reshape(NUM_GPS)
    scales = inner.outputscale if scaled else torch.ones(NUM_GPS)
    expected = torch.stack(
        [v * s * dense.CORRELATIONS[formula](DISTANCE, ls) for v, s, ls in zip(kernel.variance, scales, lengths)]
    )
    same(kernel.column(0, DISTANCE), expected, list(kernel.parameters()))


@pytest.mark.parametrize("batch", [[NUM_GPS], []])
def test_gpytorch_kernels_learn_for_each_gp(batch):
    """An optimiser's step moves every GP's hyperparameters its own way, and leaves the given kernel alone."""
    given = gpytorch.kernels.ScaleKernel(
        gpytorch.kernels.RBFKernel(batch_shape=torch.Size(batch)), batch_shape=torch.Size(batch)
    ).double()
    before = [parameter.detach().clone() for parameter in given.parameters()]
    kernel = build_kernel(given, NUM_GPS, 1).double()
    (kernel.column(0, DISTANCE) * torch.randn(NUM_GPS, len(DISTANCE), dtype=torch.float64)).sum().backward()
    torch.optim.SGD(kernel.parameters(), lr=0.1).step()
    for parameter in kernel.axes[0].parameters():
        assert parameter.flatten().unique().numel() == NUM_GPS
    for parameter, old in zip(given.parameters(), before, strict=True):
        assert torch.equal(parameter, old)


@pytest.mark.parametrize(
    "kernel",
    [
        gpytorch.kernels.LinearKernel(),
        gpytorch.kernels.PolynomialKernel(power=2),
        gpytorch.kernels.ScaleKernel(gpytorch.kernels.LinearKernel()),
        gpytorch.kernels.RBFKernel() + gpytorch.kernels.LinearKernel(),
    ],
)
def test_gpytorch_kernels_that_are_not_stationary_are_refused(kernel):
    with pytest.raises(ValueError, match="stationary"):
        build_kernel(kernel, NUM_GPS, 1)


def test_gpytorch_kernel_for_another_number_of_gps_is_refused():
    with pytest.raises(ValueError, match="batch_shape"):
        build_kernel(gpytorch.kernels.RBFKernel(batch_shape=torch.Size([NUM_GPS + 1])), NUM_GPS, 1)


@pytest.mark.parametrize(
    ("spec", "num_dims", "match"),
    [
        (["rbf", "rbf"], 3, "one kernel or 3"),
        (["rbf"], 2, "one kernel or 2"),
        ("squared", 1, "kernel name"),
        (RBF(NUM_GPS + 1), 1, "GPs"),
    ],
)
def test_wrong_kernels_are_refused(spec, num_dims, match):
    with pytest.raises(ValueError, match=match):
        build_kernel(spec, NUM_GPS, num_dims)
