"""Laws of interpolation that hold for any positions and sizes."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from tolerances import close

from svdkl.gp.interpolation import interpolate, interpolation_weights

sizes_of = st.lists(st.integers(4, 9), min_size=1, max_size=3).map(tuple)
seeds = st.integers(0, 2**31)


def random_positions(seed: int, sizes: tuple[int, ...], rows: int = 7, gps: int = 2) -> torch.Tensor:
    """Draw positions on the lattice and up to a cell beyond its ends."""
    generator = torch.Generator().manual_seed(seed)
    unit = torch.rand(rows, gps, len(sizes), dtype=torch.float64, generator=generator)
    return unit * (torch.tensor(sizes) + 1.0) - 1.0


def on_lattice(function, sizes: tuple[int, ...], gps: int = 2) -> torch.Tensor:
    axes = torch.meshgrid(*(torch.arange(size, dtype=torch.float64) for size in sizes), indexing="ij")
    return function(torch.stack(axes, -1)).expand(gps, *sizes)


def inside(positions: torch.Tensor, sizes: tuple[int, ...]) -> torch.Tensor:
    return torch.minimum(positions.clamp_min(0), torch.tensor(sizes, dtype=torch.float64) - 1)


@given(seeds, st.integers(4, 30))
def test_weights_sum_to_one_and_at_most_four_are_not_zero(seed, size):
    rows = interpolation_weights(random_positions(seed, (size,))[..., 0], size)
    close(rows.sum(-1), torch.ones_like(rows[..., 0]))
    assert int((rows != 0).sum(-1).max()) <= 4


@given(seeds, sizes_of)
def test_constants_linear_functions_and_quadratics_are_reproduced_up_to_the_ends(seed, sizes):
    positions = random_positions(seed, sizes)
    generator = torch.Generator().manual_seed(seed)
    a, b = torch.randn(2, len(sizes), dtype=torch.float64, generator=generator)

    def quadratic(x):
        return 1.7 + (a * x).sum(-1) + (b * x.square()).sum(-1)

    close(interpolate(on_lattice(quadratic, sizes), positions), quadratic(inside(positions, sizes)))


@given(seeds, sizes_of)
def test_grid_points_are_met_exactly(seed, sizes):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(2, *sizes, dtype=torch.float64, generator=generator)
    index = [torch.randint(size, (5, 2), generator=generator) for size in sizes]
    positions = torch.stack(index, -1).double()
    expected = torch.stack([values[j][tuple(i[:, j] for i in index)] for j in range(2)], -1)
    close(interpolate(values, positions), expected)


@given(seeds, sizes_of)
def test_m_mt_is_symmetric_and_local(seed, sizes):
    """M M^T is zero between rows that share no neighbour on some axis. The gradient of the values is M^T times x."""
    positions = random_positions(seed, sizes)
    u = torch.zeros(7, 2, *sizes, dtype=torch.float64, requires_grad=True)
    eye = torch.eye(7, dtype=torch.float64)[:, :, None].expand(7, 7, 2)
    (transposed,) = torch.autograd.grad(interpolate(u, positions), u, eye)
    product = interpolate(transposed, positions)
    close(product, product.transpose(0, 1))
    place = inside(positions, sizes)
    apart = ((place[:, None] - place[None]).abs() > 4).any(-1)
    assert torch.equal(product[apart], torch.zeros_like(product[apart]))


@given(seeds, st.integers(5, 20))
def test_the_slope_is_continuous_across_cells(seed, size):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(1, size, dtype=torch.float64, generator=generator)
    knots = torch.arange(1, size - 1, dtype=torch.float64)
    slopes = []
    for side in (-1e-7, 1e-7):
        position = (knots + side).reshape(-1, 1, 1).requires_grad_()
        slopes.append(torch.autograd.grad(interpolate(values, position).sum(), position)[0])
    torch.testing.assert_close(slopes[0], slopes[1], rtol=0, atol=1e-4)
