"""A hundred small models of random make, on data with outliers, constants and repeated rows: nothing ever goes NaN."""

import random

import pytest
import torch

from svdkl import MLP, SVDKL

KERNELS = ("rbf", "matern12", "matern32", "matern52", "rational_quadratic", "periodic", "spectral_mixture")
LIKELIHOODS = ("softmax", "bernoulli", "gaussian", "student_t", "poisson", "negative_binomial")


def table(choose: random.Random, num_columns: int, dtype: torch.dtype) -> torch.Tensor:
    x = torch.randn(40, num_columns, generator=torch.Generator().manual_seed(choose.randrange(2**31))).to(dtype)
    if choose.random() < 0.5:
        x[choose.randrange(40), choose.randrange(num_columns)] = choose.choice([1e6, -1e6])
    if choose.random() < 0.3:
        x[:, choose.randrange(num_columns)] = choose.choice([0.0, 3.5])
    if choose.random() < 0.3:
        x[20:] = x[:20]
    return x


def targets(likelihood: str, num_outputs: int, x: torch.Tensor, choose: random.Random) -> torch.Tensor:
    signal = x[:, 0].clamp(-3, 3)
    if likelihood == "softmax":
        return (signal > 0).long() * choose.randrange(1, num_outputs)
    y = torch.stack([signal * choose.choice([-1.0, 0.5, 2.0]) for _ in range(num_outputs)], 1)
    if likelihood == "bernoulli":
        return (y > 0).to(x.dtype)
    if likelihood in ("poisson", "negative_binomial"):
        return y.exp().round()
    if choose.random() < 0.3:
        y[choose.randrange(40), 0] = 1e6
    return y


@pytest.mark.parametrize("seed", range(100))
def test_fifty_steps_leave_every_parameter_finite(seed):
    choose = random.Random(seed)
    torch.manual_seed(seed)
    dtype = choose.choice([torch.float32, torch.float64])
    likelihood = choose.choice(LIKELIHOODS)
    num_outputs = choose.choice([2, 3]) if likelihood == "softmax" else choose.choice([1, 2])
    num_dims = choose.choice([1, 1, 2, 3])
    num_features = num_dims * choose.choice([1, 2])
    kernel = choose.choice(KERNELS)
    form = "toeplitz" if kernel in ("periodic", "rational_quadratic") else choose.choice(["toeplitz", "circulant"])
    x = table(choose, 3, dtype)
    y = targets(likelihood, num_outputs, x, choose)
    model = SVDKL(
        MLP(3, (16,), num_features),
        num_features,
        num_outputs,
        likelihood,
        dims_per_gp=num_dims,
        grid_size=choose.choice([4, 5, 8]) if num_dims > 1 else choose.choice([4, 9, 32]),
        kernel=kernel,
        posterior=choose.choice(["cholesky", "banded", "mean_field"]),
        whitened=choose.random() < 0.7,
        prior=form,
        estimator=choose.choice(["marginal", "joint"]),
        learn_bounds=choose.random() < 0.3,
    ).to(dtype)
    if choose.random() < 0.7:
        with torch.no_grad():
            model.head.gps.bounding.set_ranges(model.net(x))
    optimiser = torch.optim.Adam(model.parameters(), lr=choose.choice([1e-3, 1e-2]))
    for _ in range(50):
        optimiser.zero_grad()
        (-model.elbo(x, y, num_data=len(x)).value).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimiser.step()
    for name, parameter in model.named_parameters():
        assert bool(torch.isfinite(parameter).all()), name
    uncertainty = model.uncertainty(x)
    assert all(bool(torch.isfinite(part).all()) for part in uncertainty)
