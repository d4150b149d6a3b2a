"""The families of L_d against the matrix written out from their raw parameters."""

import pytest
import torch
from tolerances import close

from oracles.twins import FAMILIES, NUM_GPS, axis_factor, random_gps, same, uniform
from svdkl.inducing.posterior import inverse_softplus

SIZES = [4, 6, 9]  # a band of four below the diagonal holds all of the first


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("family", FAMILIES)
def test_factor(family, size):
    factor = random_gps((size,), family).posterior.axes[0]
    L, raw = axis_factor(factor), list(factor.parameters())
    S = L @ L.mT
    x = torch.randn(NUM_GPS, size, 3, dtype=torch.float64, requires_grad=True)
    same(factor.dense(), L, raw)
    same(factor.matmul(x), L @ x, [*raw, x])
    same(factor.log_det(), torch.logdet(S), raw)
    for width in (1, 4):
        diagonals = [S.diagonal(k, 1, 2) for k in range(width)]
        padded = [torch.nn.functional.pad(diagonal, (0, size - diagonal.shape[-1])) for diagonal in diagonals]
        same(factor.gram(width), torch.stack(padded, 1), raw)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("family", FAMILIES)
def test_assign(family, size):
    """A family takes over as many of the diagonals as it holds."""
    factor = random_gps((size,), family).posterior.axes[0]
    L = torch.randn(NUM_GPS, size, size, dtype=torch.float64).tril(-1)
    L = L + torch.diag_embed(uniform(NUM_GPS, size, low=1e-3, high=3))
    factor.assign(L)
    held = {"cholesky": size, "banded": 4, "mean_field": 0}[family]
    close(factor.dense(), L.triu(-held))


def test_inverse_softplus():
    x = torch.linspace(-25, 25, 11, dtype=torch.float64, requires_grad=True)
    same(inverse_softplus(torch.log1p(x.exp())), x, [x])
