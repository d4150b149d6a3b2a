"""The families of L_d against the matrix written out from their raw parameters."""

import dense
import pytest
import torch
from tolerances import close

from oracles.twins import (
    FAMILIES,
    FORMS,
    LATTICES,
    NUM_GPS,
    axis_factor,
    random_gps,
    random_positions,
    same,
    uniform,
    write_out,
)
from svdkl.gp.linalg.banded import banded_gram
from svdkl.gp.posterior import BandedFactor, inverse_softplus

SIZES = [4, 6, 9]  # four diagonals below the main one hold the whole of a 4 x 4 matrix


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("family", FAMILIES)
def test_factor(family, size):
    factor = random_gps((size,), family).posterior.axes[0]
    L, raw = axis_factor(factor), list(factor.parameters())
    S = L @ L.mT
    x = torch.randn(NUM_GPS, size, 3, dtype=torch.float64, requires_grad=True)
    same(factor.dense(), L, raw)
    same(factor.matmul(x), L @ x, [*raw, x])
    same(factor.times_rows(x.mT), x.mT @ L, [*raw, x])
    same(factor.log_det(), torch.logdet(S), raw)
    same(factor.trace(), S.diagonal(0, 1, 2).sum(-1), raw)
    close(S, S.triu(1 - factor.width).tril(factor.width - 1))
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


def test_banded_gram_twice_differentiated():
    bands = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: banded_gram(x, 4), bands)


@pytest.mark.parametrize("sizes", LATTICES)
def test_auto_mixes_families(sizes, monkeypatch):
    """Some axes are banded, others are not; marginals and KL still equal the dense ones."""
    monkeypatch.setattr("svdkl.gp.posterior.LONG_AXIS", 6)
    for form in FORMS:
        gps = random_gps(sizes, "auto", True, form)
        assert [isinstance(factor, BandedFactor) for factor in gps.posterior.axes] == [size >= 6 for size in sizes]
        positions, q, prior = random_positions(9, sizes), write_out(gps), gps.prior()
        M = dense.interpolation_matrices(positions, sizes)
        marginals = gps.tables(prior, torch.float64).at(positions)
        inputs = [*gps.parameters(), positions]
        same(marginals.mean, (M @ q.mean.unsqueeze(-1)).squeeze(-1).mT, inputs)
        same(marginals.variance, (M @ q.S @ M.mT).diagonal(0, 1, 2).mT, inputs)
        kl = torch.stack([dense.kl_gaussians(q.mean[j], q.S[j], q.K[j]) for j in range(NUM_GPS)])
        same(gps.kl(prior), kl, inputs, "jittered")


def test_inverse_softplus():
    x = torch.linspace(-25, 25, 11, dtype=torch.float64, requires_grad=True)
    same(inverse_softplus(torch.log1p(x.exp())), x, [x])
