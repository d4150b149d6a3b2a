"""p(f | u) of the interpolated kernel: with K_XZ = M K_ZZ it is a point mass at M u."""

import dense
import pytest
import torch
from tolerances import close

from oracles.twins import FORMS, LATTICES, NUM_GPS, random_gps, random_positions, same
from svdkl.gp.interpolation import interpolate


def blocks(gps, x):
    """Compute K_XX, K_XZ and K_ZZ of the deep kernel, where Z are the grid points."""
    last = torch.tensor(gps.grid.sizes, dtype=torch.float64) - 1
    z = (dense.grid_points(gps.grid.sizes) * last).round().unsqueeze(1).repeat(1, NUM_GPS, 1)
    prior = gps.prior()
    return gps.prior_covariance(x, x, prior), gps.prior_covariance(x, z, prior), gps.prior_covariance(z, z, prior)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", LATTICES)
def test_conditional_mean_is_the_interpolant(sizes, form):
    """E[f | u] = K_XZ K_ZZ^-1 u."""
    gps, x = random_gps(sizes, form=form), random_positions(15, sizes)
    u = torch.randn(NUM_GPS, *sizes, dtype=torch.float64, requires_grad=True)
    _, K_xz, K_zz = blocks(gps, x)
    expected = (K_xz @ torch.linalg.solve(K_zz, u.flatten(1).unsqueeze(-1))).squeeze(-1).mT
    same(interpolate(u, x), expected, [u, x])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", LATTICES)
def test_conditional_covariance_is_zero(sizes, form):
    """K_XX - K_XZ K_ZZ^-1 K_ZX = 0, though K_XX is not."""
    gps, x = random_gps(sizes, form=form), random_positions(15, sizes)
    K_xx, K_xz, K_zz = blocks(gps, x)
    assert K_xx.diagonal(dim1=1, dim2=2).min() > 0.05
    close(K_xx - K_xz @ torch.linalg.solve(K_zz, K_xz.mT), torch.zeros_like(K_xx))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", LATTICES)
def test_cross_covariance_is_interpolated(sizes, form):
    """K_XZ = M K_ZZ, and K_ZZ is the prior's own."""
    gps, x = random_gps(sizes, form=form), random_positions(15, sizes)
    _, K_xz, K_zz = blocks(gps, x)
    same(K_xz, dense.interpolation_matrices(x, sizes) @ K_zz, [*gps.kernel.parameters(), x])
