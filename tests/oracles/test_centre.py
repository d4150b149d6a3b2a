"""A prior with a centre other than zero leaves q(u) the same, and changes the KL and the score of strange rows."""

import pytest
import torch
from tolerances import close

from svdkl import GPHead


@pytest.mark.parametrize(
    "options", [{}, {"whitened": False}, {"dims_per_gp": 2, "grid_size": 6}, {"prior": "circulant"}]
)
def test_recentring_moves_no_function_and_takes_the_mean_out_of_the_divergence(options):
    head = GPHead(4, 3, **{"grid_size": 9, "jitter": 1e-4, **options}).double()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    h = torch.randn(8, 4, dtype=torch.float64)
    before = head.gps.marginals(h)
    draws = head.gps.sample_functions(h, 3, torch.Generator().manual_seed(1))
    gps = head.gps.banks[0].gps
    prior = gps.prior()
    quadratic = (
        (gps.posterior.mean if gps.posterior.whitened else prior.whiten(gps.posterior.mean)).detach().clone().flatten(1)
    )
    kl = gps.kl(prior)

    gps.recentre()
    for one, other in zip(head.gps.marginals(h), before, strict=True):
        close(one, other)
    close(head.gps.sample_functions(h, 3, torch.Generator().manual_seed(1)), draws)
    close(gps.kl(prior), kl - 0.5 * quadratic.square().sum(-1), "jittered")

    target = torch.randn_like(gps.centre)
    gps.set_mean(target)
    close(gps.mean(prior), target, "jittered")


@pytest.mark.parametrize(
    "options", [{}, {"whitened": False}, {"dims_per_gp": 2, "grid_size": 6}, {"prior": "circulant"}]
)
def test_recentring_keeps_the_share_of_variance_that_the_data_left(options):
    """It is diag S / diag K at the lattice points, at most 1, and multiplies the score of a row."""
    head = GPHead(4, 3, **{"grid_size": 9, "jitter": 1e-4, "posterior_scale": 0.4, **options}).double()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    gps = head.gps.banks[0].gps
    prior = gps.prior()
    posterior_variance = prior_variance = torch.ones(gps.num_gps, 1, dtype=torch.float64)
    for axis, factor in zip(prior.axes, gps.posterior.axes, strict=True):
        root = axis.colour(factor.dense()) if gps.posterior.whitened else factor.dense()
        k = axis.multiply(torch.eye(axis.size, dtype=torch.float64).expand(gps.num_gps, -1, -1))
        for_axis = [(root @ root.mT).diagonal(dim1=-2, dim2=-1), k.diagonal(dim1=-2, dim2=-1)]
        posterior_variance, prior_variance = (
            (whole[:, :, None] * part[:, None, :]).flatten(1)
            for whole, part in zip((posterior_variance, prior_variance), for_axis, strict=True)
        )
    expected = (posterior_variance / prior_variance).clamp(max=1)
    assert (expected < 0.9).any()
    gps.recentre()
    close(gps.share_left.flatten(1), expected)

    h = torch.randn(8, 4, dtype=torch.float64)
    score = head.uncertainty(h).ood_score
    gps.share_left.fill_(1.0)
    alone = head.uncertainty(h).ood_score
    gps.share_left.fill_(0.3)
    close(head.uncertainty(h).ood_score, 0.3 * alone)
    assert (score <= alone + 1e-12).all()
