"""Interpolation against the matrix M written out."""

import dense
import pytest
import torch
from tolerances import close

from oracles.twins import LATTICES, NUM_GPS, random_positions, same
from svdkl.gp.interpolation import interpolate, interpolation_weights

EDGES = [-torch.inf, -3, -1e-9, 0, 0.4, 1, 1.7, 2, 2.5, 3, 3 + 1e-9, 3.2, 4, 4 + 1e-9, 9, torch.inf]
SIZES = [*LATTICES, (4,), (4, 4), (4, 5, 4)]


def values_on(sizes, *batch):
    return torch.randn(*batch, NUM_GPS, *sizes, dtype=torch.float64, requires_grad=True)


def multiply(M, values, num_dims):
    """M u for values (..., J, m_1, ..., m_D), as (..., B, J)."""
    return torch.einsum("jbm,...jm->...bj", M, values.flatten(-num_dims))


@pytest.mark.parametrize("batch", [(), (3,), (3, 2)])
@pytest.mark.parametrize("sizes", SIZES)
def test_interpolate(sizes, batch):
    values, positions = values_on(sizes, *batch), random_positions(20, sizes)
    expected = multiply(dense.interpolation_matrices(positions, sizes), values, len(sizes))
    same(interpolate(values, positions), expected, [values, positions])


@pytest.mark.parametrize("size", [4, 5, 9])
def test_interpolation_weights(size):
    position = random_positions(20, (size,))
    expected = dense.interpolation_matrices(position, (size,)).movedim(0, 1)
    same(interpolation_weights(position[..., 0], size), expected, [position])


@pytest.mark.parametrize("size", [4, 5])
def test_edges(size):
    """Ends, edge cells, grid points and places outside, where the end is read and the slope is zero."""
    edges = torch.tensor(EDGES, dtype=torch.float64)
    positions = edges[:, None, None].repeat(1, NUM_GPS, 1).requires_grad_()
    values = values_on((size,))
    result = interpolate(values, positions)
    same(result, multiply(dense.interpolation_matrices(positions, (size,)), values, 1), [values, positions])
    close(result[edges <= 0], values[:, 0].expand(4, NUM_GPS))
    close(result[edges == 2], values[None, :, 2])
    (slope,) = torch.autograd.grad(result.sum(), positions)
    outside = (edges < 0) | (edges > size - 1)
    assert (slope[outside] == 0).all()
    assert (slope[~outside] != 0).all()


@pytest.mark.parametrize("sizes", [(5,), (4, 5)])
def test_gradients_numerically(sizes):
    values, inside = values_on(sizes, 2), torch.tensor([0.4, 1.3, 2.6], dtype=torch.float64)
    positions = torch.stack([inside, inside.flip(0)], -1)[..., None].repeat(1, 1, len(sizes)).requires_grad_()
    assert torch.autograd.gradcheck(interpolate, (values, positions))
    assert torch.autograd.gradgradcheck(interpolate, (values, positions))


@pytest.mark.parametrize("sizes", LATTICES)
def test_second_derivatives(sizes):
    """The gradient of a gradient's square norm, on many points at once."""
    values = values_on(sizes, 3)
    last = torch.tensor(sizes, dtype=torch.float64) - 1
    positions = (torch.rand(20, NUM_GPS, len(sizes), dtype=torch.float64) * last).requires_grad_()
    norms = []
    for result in (
        interpolate(values, positions),
        multiply(dense.interpolation_matrices(positions, sizes), values, len(sizes)),
    ):
        slopes = torch.autograd.grad(result.square().sum(), (values, positions), create_graph=True)
        norms.append(sum(slope.square().sum() for slope in slopes))
    same(*norms, [values, positions])


@pytest.mark.parametrize("sizes", LATTICES)
def test_not_contiguous(sizes):
    num_dims = len(sizes)
    values = values_on(sizes, 3).movedim(0, -1).contiguous().movedim(-1, 0)
    positions = random_positions(20, sizes).permute(2, 1, 0).contiguous().permute(2, 1, 0)
    M = dense.interpolation_matrices(positions, sizes)
    result = interpolate(values, positions)
    same(result, multiply(M, values, num_dims), [values, positions])
    # A cotangent of no simple layout, too.
    cotangent = torch.randn(20, 3, NUM_GPS, dtype=torch.float64).transpose(0, 1)
    (grad,) = torch.autograd.grad(result, values, cotangent)
    close(grad.flatten(2), torch.einsum("jbm,kbj->kjm", M, cotangent))


@pytest.mark.parametrize("sizes", LATTICES)
def test_no_rows(sizes):
    values, positions = values_on(sizes, 3), random_positions(20, sizes)[:0]
    result = interpolate(values, positions)
    assert result.shape == (3, 0, NUM_GPS)
    (grad,) = torch.autograd.grad(result.sum(), values)
    close(grad, torch.zeros_like(values))


@pytest.mark.parametrize("sizes", LATTICES)
def test_nan_stays_in_its_row(sizes):
    values, positions = values_on(sizes), random_positions(20, sizes).detach()
    expected = interpolate(values, positions)
    positions[3, 1, -1] = torch.nan
    result = interpolate(values, positions)
    assert result.isnan().nonzero().tolist() == [[3, 1]]
    close(result[~result.isnan()], expected[~result.isnan()])
