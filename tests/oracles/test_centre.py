"""A prior with a centre other than zero: q(u) is the same, only what it is measured from has moved."""

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
    before = head.marginals(h)
    draws = head.sample_functions(h, 3, torch.Generator().manual_seed(1))
    gps = head.banks[0].gps
    prior = gps.prior()
    quadratic = (
        (gps.posterior.mean if gps.posterior.whitened else prior.whiten(gps.posterior.mean)).detach().clone().flatten(1)
    )
    kl = gps.kl(prior)

    gps.recentre()
    for one, other in zip(head.marginals(h), before, strict=True):
        close(one, other)
    close(head.sample_functions(h, 3, torch.Generator().manual_seed(1)), draws)
    close(gps.kl(prior), kl - 0.5 * quadratic.square().sum(-1), "jittered")

    target = torch.randn_like(gps.centre)
    gps.set_mean(target)
    close(gps.mean(prior), target, "jittered")
