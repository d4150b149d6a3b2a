"""Laws of predictions: no row depends on another, nothing is negative, probabilities are probabilities."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tolerances import close

from svdkl import MLP, SVDKL, GPHead

seeds = st.integers(0, 2**31)
layouts = st.sampled_from(
    [
        {"grid_size": 8},
        {"grid_size": 6, "dims_per_gp": 2},
        {"grid_size": 5, "groups": [(0,), (2, 1), (3, 0, 1)]},
        {"grid_size": 16, "prior": "circulant", "posterior": "banded"},
        {"grid_size": 9, "posterior": "mean_field", "whitened": False},
    ]
)


def random_head(seed: int, num_outputs: int, likelihood="softmax", **options) -> GPHead:
    generator = torch.Generator().manual_seed(seed)
    head = GPHead(4, num_outputs, likelihood, **options)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(0.7 * torch.randn(parameter.shape, generator=generator))
    return head


def wild_features(seed: int, rows: int) -> torch.Tensor:
    """Draw usual values, and some very far off."""
    generator = torch.Generator().manual_seed(seed)
    scale = 10.0 ** torch.randint(-2, 8, (rows, 1), generator=generator)
    return scale * torch.randn(rows, 4, generator=generator)


@given(seeds, layouts, st.integers(2, 5))
def test_probabilities_are_the_same_for_any_split_order_and_size_of_batch(seed, options, num_outputs):
    head = random_head(seed, num_outputs, **options)
    h = wild_features(seed, 11)
    whole = head.predict_proba(h)
    close(whole.sum(1), torch.ones(11), "float32")
    assert whole.min().item() >= 0
    for size in (1, head.gps.num_gps, num_outputs, 7):  # with B = J or B = C, dimensions are easily mixed up
        close(torch.cat([head.predict_proba(part) for part in h.split(size)]), whole, "float32")
    order = torch.randperm(11)
    close(head.predict_proba(h[order]), whole[order], "float32")


@given(seeds, layouts)
def test_variances_are_never_negative_and_features_never_out_of_bounds(seed, options):
    head = random_head(seed, 3, **options)
    h = wild_features(seed, 50)
    marginals = head.gps.marginals(h)
    assert marginals.variance.min().item() >= 0
    assert bool(torch.isfinite(marginals.mean).all())
    for bank, positions in zip(head.gps.members(), head.gps.positions(h), strict=True):
        for d in range(bank.gps.grid.num_dims):
            low, high = bank.gps.grid.interior(d)
            assert positions[..., d].min().item() >= low - 1e-4
            assert positions[..., d].max().item() <= high + 1e-4


def test_data_on_a_ring_stay_clear_of_the_seam():
    """The two ends of the data must not be neighbours: outliers on either side are a quarter of the ring apart."""
    head = GPHead(1, 2, grid_size=64, prior="circulant", kernel="matern12")
    (positions,) = head.gps.positions(torch.tensor([[-1e9], [1e9]]))
    low, high = positions.flatten().tolist()
    assert 64 - (high - low) >= 64 / 4


@given(seeds)
def test_even_a_feature_far_off_keeps_a_gradient(seed):
    head = random_head(seed, 2, grid_size=12)
    h = wild_features(seed, 30).requires_grad_()
    z = head.gps.bounding(h)
    (grad,) = torch.autograd.grad(z.sum(), h)
    assert grad.min().item() > 0
    ordered = head.gps.bounding(torch.linspace(-50, 50, 4001)[:, None].expand(-1, 4))
    assert ordered.diff(dim=0).min().item() >= 0
    assert z.abs().max().item() <= 1


@given(seeds, layouts, st.sampled_from(["softmax", "bernoulli", "gaussian", "student_t", "negative_binomial"]))
def test_uncertainty_adds_up_and_is_not_negative(seed, options, likelihood):
    head = random_head(seed, 3, likelihood, **options)
    with torch.no_grad():
        head.mixing.weight.mul_(0.3)
    u = head.uncertainty(torch.randn(9, 4, generator=torch.Generator().manual_seed(seed)))
    close(u.total, u.aleatoric + u.epistemic, "float32")
    for part in u:
        assert part.min().item() >= -1e-6
    assert u.ood_score.shape == (9,)


def test_uncertainty_of_the_prior_is_one_and_of_a_pinned_function_nearly_zero():
    head = GPHead(2, 3, grid_size=10, posterior_scale=1.0)
    h = torch.randn(5, 2)
    close(head.uncertainty(h).ood_score, torch.ones(5), "float32")
    pinned = GPHead(2, 3, grid_size=10, posterior_scale=1e-3)
    assert pinned.uncertainty(h).ood_score.max().item() < 1e-5
    assert pinned.uncertainty(h).epistemic.max().item() < 1e-5


@pytest.mark.parametrize("num_outputs", [2, 3, 6])
def test_probabilities_are_the_expected_softmax(num_outputs):
    """They equal the mean over many random draws of g for each row."""
    head = random_head(4, num_outputs, grid_size=12)
    h = torch.randn(8, 4)
    with torch.no_grad():
        mean, variance = head.gps.marginals(h)
        f = mean + variance.sqrt() * torch.randn(200_000, *mean.shape)
        draws = head.mixing(f).softmax(-1)
    standard_error = draws.std(0) / len(draws) ** 0.5
    # Two classes use quadrature. More classes use a few fixed points, whose own error adds to the draws'.
    own = 1e-5 if num_outputs == 2 else 1e-2
    assert ((head.predict_proba(h) - draws.mean(0)).abs() - 5 * standard_error).max().item() < own


@pytest.mark.parametrize("num_outputs", [2, 5])
def test_uncertainty_of_classes_equals_that_of_many_draws(num_outputs):
    """Draws give the entropy of the mean and the mean of the entropies; marginals give the share of variance left."""
    head = random_head(5, num_outputs, grid_size=12)
    head.familiarity.remember(torch.randn(40, 4))
    h = torch.randn(8, 4)
    with torch.no_grad():
        mean, variance = head.gps.marginals(h)
        g = head.mixing(mean + variance.sqrt() * torch.randn(100_000, *mean.shape))
        p = g.softmax(-1)
        entropies = -(p * p.clamp_min(1e-30).log()).sum(-1)
        average = p.mean(0)
        total = -(average * average.log()).sum(-1)
        prior = head.gps.prior_marginals(h, head.state())
        squared = head.mixing.weight.square()  # Var g_c = sum_j A_cj^2 Var f_j
        share = (variance @ squared.T).sum(-1) / (prior.variance @ squared.T).sum(-1)
    u = head.uncertainty(h)
    own = 3e-3 if num_outputs == 2 else 2e-2  # the error of the draws, and of the few fixed points
    assert (u.total - total).abs().max().item() < own
    assert (u.aleatoric - entropies.mean(0)).abs().max().item() < own
    assert u.epistemic.max().item() > 5 * own  # so that the two parts differ
    known = 1 - (1 - share).clamp_min(0) * (1 - head.familiarity.strangeness(h)) + (share - 1).clamp_min(0)
    close(u.ood_score, known, "float32")
    close(u.latent_variance, variance @ squared.T, "float32")


@pytest.mark.parametrize("likelihood", ["softmax", "gaussian"])
def test_predictions_in_parts_equal_the_whole(likelihood, monkeypatch):
    """Rows whose latent points do not fit into memory at once are taken in parts."""
    head = random_head(6, 3, likelihood, grid_size=8)
    h = torch.randn(23, 4)
    predict = head.predict_proba if likelihood == "softmax" else head.predict
    whole = [predict(h), *head.uncertainty(h)]
    monkeypatch.setattr("svdkl.gp.head.POINTS_IN_CACHE", 5 * 128 * 3)
    parts = [predict(h), *head.uncertainty(h)]
    for one, other in zip(parts, whole, strict=True):
        for a, b in zip(one, other, strict=True) if isinstance(one, tuple) else [(one, other)]:
            close(a, b, "float32")


def test_forward_gives_logits_of_the_probabilities():
    model = SVDKL(MLP(3, (16,), 4), 4, 3)
    x = torch.randn(10, 3)
    close(model(x).softmax(-1), model.predict_proba(x), "float32")
    close(model.log_predictive(x, torch.arange(10) % 3), model(x)[torch.arange(10), torch.arange(10) % 3], "float32")
