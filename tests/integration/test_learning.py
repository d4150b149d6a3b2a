"""Models learn: small data, a few seconds each."""

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn

from svdkl import MLP, SVDKL, replace_classifier


def fit(model: SVDKL, x: torch.Tensor, y: torch.Tensor, steps: int, rate: float = 1e-2) -> list[float]:
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    values = []
    for _ in range(steps):
        optimiser.zero_grad()
        elbo = model.elbo(x, y, num_data=len(x))
        (-elbo.value).backward()
        optimiser.step()
        values.append(elbo.value.item())
    return values


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"estimator": "joint"},
        {"whitened": False, "posterior_scale": 0.1, "kernel": "matern12"},
        {"dims_per_gp": 2, "grid_size": 12, "posterior": "mean_field"},
        {"prior": "circulant", "posterior": "banded"},
    ],
    ids=str,
)
def test_a_head_from_scratch_separates_two_moons(options):
    angle = torch.rand(200) * torch.pi
    label = torch.arange(200) % 2
    x = torch.stack([angle.cos(), angle.sin()], 1) * (1 - 2 * label[:, None]) + label[:, None] * torch.tensor(
        [1.0, 0.5]
    )
    model = SVDKL(MLP(2, (32, 32), 4), 4, 2, **options)
    values = fit(model, x, label, 400)
    assert values[-1] > values[0]
    assert (model.predict_proba(x).argmax(1) == label).float().mean().item() > 0.97


def test_regression_finds_function_and_noise():
    x = torch.linspace(-2, 2, 400)[:, None]
    y = torch.sin(3 * x[:, 0]) + 0.1 * torch.randn(400)
    model = SVDKL(nn.Identity(), 1, 1, "gaussian", grid_size=32)
    model.head.gps.bounding.set_ranges(x)
    fit(model, x, y, 800, rate=3e-2)
    prediction = model.predict(x)
    assert (prediction.mean[:, 0] - torch.sin(3 * x[:, 0])).abs().mean().item() < 0.05
    assert 0.08 < prediction.noise_variance.sqrt().mean().item() < 0.13


def test_a_replaced_layer_trains_on():
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(images))
    x, y = torch.tensor(images / 16, dtype=torch.float32)[order], torch.tensor(labels)[order]
    train, test = slice(0, 1000), slice(1000, None)
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(25):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(x[train]), y[train]).backward()
        optimiser.step()
    model = replace_classifier(net, x[train])
    before = model.log_predictive(x[test], y[test]).mean().item()
    values = fit(model, x[train], y[train], 60, rate=3e-3)
    assert values[-1] > values[0] + 0.1
    assert model.log_predictive(x[test], y[test]).mean().item() > before + 0.05


def test_more_data_leave_less_epistemic_uncertainty():
    """... and the score is higher where there were no data at all."""
    x = torch.rand(300, 1) * 2 - 1
    y = (x[:, 0] > 0).long()
    model = SVDKL(nn.Identity(), 1, 2, grid_size=32, posterior_scale=1.0)
    model.head.gps.bounding.set_ranges(x * 2)  # the lattice reaches twice as far as the data
    fit(model, x, y, 400, rate=3e-2)
    inside, outside = model.uncertainty(torch.tensor([[0.5]])), model.uncertainty(torch.tensor([[1.9]]))
    assert outside.ood_score.item() > 3 * inside.ood_score.item()
    assert outside.epistemic.item() > inside.epistemic.item()
