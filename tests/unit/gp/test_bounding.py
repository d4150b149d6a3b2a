"""The map of features into (-1, 1), whose derivatives are written out."""

import math

import pytest
import torch
from tolerances import close

from svdkl.gp.bounding import BEND, LIMIT, SLOPE, STEEPNESS, compress, expand

FAR = math.sinh(BEND * LIMIT) / SLOPE  # where the limit is reached


def written_out(t: torch.Tensor) -> torch.Tensor:
    z = torch.asinh(SLOPE * t) / BEND
    middle = z.clamp(-LIMIT, LIMIT)
    return middle + torch.atan((z - middle) * STEEPNESS) / STEEPNESS


def places(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    near = torch.linspace(-2 * FAR, 2 * FAR, 401, dtype=torch.float64)
    return torch.cat([near, torch.tensor([-1e6, -1e-12, 1e-9, 1e4, 1e12])]).to(dtype).requires_grad_()


@pytest.mark.parametrize(("dtype", "kind"), [(torch.float64, "float64"), (torch.float32, "float32")])
def test_value_and_slope(dtype, kind):
    t, exact = places(dtype), places()
    close(compress(t), written_out(exact).to(dtype), kind)
    found, right = (torch.autograd.grad(f(x).sin().sum(), x)[0] for f, x in ((compress, t), (written_out, exact)))
    assert found.dtype == dtype
    close(found, right.to(dtype), kind)


def test_twice_differentiated():
    """Away from the limit, where the third derivative jumps."""
    t = torch.tensor([-1.5 * FAR, -0.9 * FAR, -0.3, 0.2, 1.0, 0.8 * FAR, 1.2 * FAR], dtype=torch.float64)
    t.requires_grad_()
    assert torch.autograd.gradcheck(compress, t)
    assert torch.autograd.gradgradcheck(compress, t)
    slopes = [torch.autograd.grad(compress(t).sum(), t, create_graph=again)[0] for again in (False, True)]
    close(*slopes)


def test_nothing_overflows():
    t = torch.tensor([-2e38, -1e30, 1e20, 2e38], requires_grad=True)
    z = compress(t)
    (slope,) = torch.autograd.grad(z.sum(), t)
    assert bool((z.abs() < 1).all())
    assert z.tolist() == sorted(z.tolist())
    assert bool((slope.isfinite() & (slope >= 0)).all())


def test_the_inverse_up_to_the_limit():
    z = torch.linspace(-LIMIT, LIMIT, 101, dtype=torch.float64)
    close(compress(expand(z)), z)


def test_the_argument_is_left_alone():
    t = places().detach()
    before = t.clone()
    compress(t)
    assert torch.equal(t, before)
