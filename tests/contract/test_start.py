"""The start of a head in a network's place: likely under its own prior, and equal to the network where it should be."""

import pytest
import torch
from tolerances import close
from torch import nn

from svdkl import SVDKL, GPHead, replace_classifier
from svdkl.gp.interpolation import interpolation_weights
from svdkl.gp.linalg.toeplitz import toeplitz_dense
from svdkl.training.config import WarmStartConfig
from svdkl.training.warm_start import start_from_linear


def network(num_outputs: int = 5) -> tuple[nn.Module, torch.Tensor]:
    net = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 20), nn.ReLU(), nn.Linear(20, num_outputs))
    return net, torch.randn(400, 6)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"grid_size": 256},
        {"prior": "circulant"},
        {"kernel": "periodic"},
        {"kernel": "matern32"},
        {"whitened": False},
    ],
    ids=str,
)
def test_the_start_is_a_likely_function(options):
    """The mean's part of the divergence is tens of nats a GP, on a line and on a ring."""
    net, x = network()
    model = replace_classifier(net, x, **options)
    gps = model.head.gps.banks[0].gps
    mean = gps.posterior.mean.double()
    white = mean if gps.posterior.whitened else gps.prior().whiten(mean)
    assert 0.5 * white.flatten(1).square().sum(1).max().item() < 200
    close(model.predict_proba(x), net(x).softmax(-1), "start")


def test_lengthscales_and_width_of_the_start_come_from_the_features():
    net, x = network()
    gps = replace_classifier(net, x).head.gps.banks[0].gps
    lengthscale = gps.kernel.axes[0].lengthscale
    assert lengthscale.max().item() > 1.2 * lengthscale.min().item()  # not one for all
    model = replace_classifier(net, x)
    f = model.head.gps.marginals(model.net(x))
    varies = f.mean.std(0) > 0
    deviation = (f.variance.sqrt() / f.mean.std(0))[:, varies]
    assert 0.005 < deviation.median().item() < 0.04
    # Where there are no rows, next to nothing is known.
    far = model.head.gps.marginals(model.net(30 * x))
    assert (far.variance.sqrt() / f.mean.std(0))[:, varies].mean().item() > 10 * deviation.mean().item()


def test_the_start_knows_what_so_many_rows_would_tell():
    """S = (K⁻¹ + n MᵀM / (B s²))⁻¹, written out for one GP."""
    torch.manual_seed(0)
    features = torch.randn(300, 2) * torch.tensor([0.3, 4.0])
    for whitened in (True, False):
        head = GPHead(2, 3, grid_size=24, whitened=whitened)
        start_from_linear(head, features, torch.randn(3, 2), torch.randn(3))
        gps = head.gps.banks[0].gps
        positions = head.gps.banks[0].positions(head.gps.bounding(features))[..., 0].double()
        for j in range(2):
            K = toeplitz_dense(gps.prior().axes[0].column)[j]
            M = interpolation_weights(positions, 24)[:, j]
            noise = features[:, j].double().std(correction=0)
            S = torch.linalg.inv(torch.linalg.inv(K) + WarmStartConfig().rows_seen / 300 / noise**2 * M.T @ M)
            covariance = M @ S @ M.T
            ours = head.gps.latent_covariance(features, features, j)
            close(ours / covariance.max(), covariance / covariance.max(), "start")


def test_outliers_do_not_take_the_lattice_and_sparse_units_get_their_peers_range():
    head = GPHead(3, 2)
    h = torch.randn(1000, 3)
    h[0, 0] = 1e6
    h[:, 2] = 0.0
    h[5, 2] = 1e-3
    head.gps.bounding.set_ranges(h)
    scale = head.gps.bounding.scale
    assert scale[0].item() < 10
    assert 0.5 < (scale[2] / scale[1]).item() < 2


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 20), nn.Linear(20, 20)

    def forward(self, x):
        return self.b(torch.tanh(self.b(self.a(x))))


class Aliased(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(20, 3)
        self.layers = nn.Sequential(nn.Linear(6, 20), nn.ReLU(), self.fc)

    def forward(self, x):
        return self.layers(x)


def test_a_layer_of_two_names_is_replaced_under_both_and_one_used_twice_is_refused():
    x = torch.randn(300, 6)
    net = Aliased()
    close(replace_classifier(net, x).predict_proba(x), net(x).softmax(-1), "start")
    with pytest.raises(ValueError, match="once"):
        replace_classifier(Twice(), x)


@pytest.mark.parametrize("num_outputs", [1, 3])
def test_logits_of_labels_are_their_log_odds(num_outputs):
    net, x = network(num_outputs)
    model = replace_classifier(net, x, likelihood="bernoulli")
    assert model(x).shape == (400, num_outputs)
    close(model(x).sigmoid(), net(x).sigmoid(), "start")


def test_logits_stay_finite_where_a_probability_underflows():
    head = GPHead(2, 3, posterior_scale=1e-4)
    with torch.no_grad():
        head.mixing.bias.copy_(torch.tensor([0.0, 300.0, -300.0]))
    h = torch.randn(4, 2, requires_grad=True)
    logits = head(h)
    assert bool(torch.isfinite(logits).all())
    (gradient,) = torch.autograd.grad(logits.sum(), h)
    assert bool(torch.isfinite(gradient).all())


def test_any_finite_feature_will_do():
    head = GPHead(3, 3)
    h = torch.tensor([[1e20, -1e20, 0.0], [3e38, -3e38, 1e-30]], requires_grad=True)
    elbo = head.elbo(h, torch.tensor([0, 2]), num_data=2)
    (gradient,) = torch.autograd.grad(elbo.value, h)
    assert bool(torch.isfinite(elbo.value))
    assert bool(torch.isfinite(gradient).all())
    assert bool(torch.isfinite(head.predict_proba(h)).all())


def test_ranges_can_be_set_from_inputs():
    model = SVDKL(nn.Identity(), 2, 2, grid_size=16)
    model.set_ranges(torch.randn(100, 2) * 7 + 100)
    assert 90 < model.head.gps.bounding.location.mean().item() < 110


def test_points_of_many_gps_have_the_right_variance():
    head = GPHead(150, 4, grid_size=8, posterior_scale=0.5)
    h = torch.randn(3, 150)
    latents = head.latents(h)
    _, variance = head.mixing.gaussian(*head.gps.marginals(h))
    close(latents.points.var(0, correction=0), variance, "float32")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("likelihood", ["gaussian", "student_t"])
def test_heads_of_low_precision_predict_in_float32(dtype, likelihood):
    head = GPHead(3, 2, likelihood).to(dtype)
    prediction = head.predict(torch.randn(4, 3, dtype=dtype))
    assert prediction.mean.dtype == torch.float32
    assert bool(torch.isfinite(prediction.variance).all())


@pytest.mark.parametrize("spread", [0.0, 1e-30, 1e-12, 1e-7])
@pytest.mark.parametrize("whitened", [True, False])
def test_a_feature_that_hardly_varies_is_no_obstacle(spread, whitened):
    """Units that never fire, or nearly so, beside others: what so many rows would tell of them is still finite."""
    features = torch.randn(500, 6).relu()
    features[:, 2] = 0.3 + spread * torch.randn(500).relu()
    features[:, 4] = 0.0
    head = GPHead(6, 3, grid_size=32, whitened=whitened)
    start_from_linear(head, features, torch.randn(3, 6), torch.randn(3))
    assert all(torch.isfinite(parameter).all() for parameter in head.parameters())
    assert torch.isfinite(head.elbo(features, torch.randint(3, (500,)), 500).value)
    assert (head.gps.marginals(features).variance >= 0).all()
