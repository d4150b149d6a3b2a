"""Random GPs on a lattice and, written out from the same parameters, their dense means and covariances."""

from collections.abc import Sequence
from typing import NamedTuple

import dense
import torch
from tolerances import close
from torch import Tensor

from svdkl.gp.lattice_gps import LatticeGPs
from svdkl.gp.posterior import BandedFactor, CholeskyFactor

NUM_GPS = 2
LATTICES = [(11,), (7, 6), (5, 4, 7)]
FORMS = ["toeplitz", "circulant"]
FAMILIES = ["cholesky", "banded", "mean_field"]
KERNELS = ["matern32", "rbf", "matern52"]  # the first D of these, one an axis


def uniform(*shape: int, low: float, high: float) -> Tensor:
    return low + (high - low) * torch.rand(shape, dtype=torch.float64)


def same(actual: Tensor, expected: Tensor, inputs: Sequence[Tensor], kind: str = "float64") -> None:
    """Assert equal values, and equal gradients of the inputs for a random cotangent."""
    close(actual, expected, kind)
    cotangent = torch.randn_like(expected)
    ours, theirs = (
        torch.autograd.grad(y, inputs, cotangent, retain_graph=True, materialize_grads=True) for y in (actual, expected)
    )
    for a, b in zip(ours, theirs, strict=True):
        close(a, b, kind)


def random_gps(
    sizes: tuple[int, ...],
    family: str = "cholesky",
    whitened: bool = False,
    form: str = "toeplitz",
    jitter: float = 1e-3,
) -> LatticeGPs:
    """Build GPs whose parameters are all random, even in places that must not be read."""
    gps = LatticeGPs(NUM_GPS, sizes, KERNELS[: len(sizes)], family, whitened, form, jitter).double()
    with torch.no_grad():
        for axis in gps.kernel.axes:
            axis.log_lengthscale.copy_(uniform(NUM_GPS, low=0.08, high=0.18).log())
        gps.kernel.log_variance.uniform_(-1, 1)
        for parameter in gps.posterior.parameters():
            parameter.normal_(0, 0.5)
    return gps


def random_positions(num_rows: int, sizes: Sequence[int]) -> Tensor:
    """Draw positions (B, J, D); the first eight rows lie on ends, on grid points, in edge cells and outside."""
    last = torch.tensor(sizes, dtype=torch.float64) - 1
    positions = torch.rand(num_rows, NUM_GPS, len(sizes), dtype=torch.float64) * last
    from_end = torch.tensor([0.0, 1.0, 0.3, -0.7], dtype=torch.float64)[:, None].expand(4, len(sizes))
    special = torch.cat([from_end, last - from_end])
    for j in range(NUM_GPS):
        for d in range(len(sizes)):
            positions[:8, j, d] = special[torch.randperm(8), d]
    return positions.requires_grad_()


class Dense(NamedTuple):
    """Dense N(mean, S) and N(0, K) of each GP, with roots S = L L^T and K = R R^T."""

    mean: Tensor
    S: Tensor
    K: Tensor
    L: Tensor
    R: Tensor


def write_out(gps: LatticeGPs) -> Dense:
    K_axes, L_axes = axis_covariances(gps), [axis_factor(factor) for factor in gps.posterior.axes]
    K, L = dense.krons(K_axes), dense.krons(L_axes)
    # The Cholesky factor of a Kronecker product is the product of its factors' ones; so is the symmetric root.
    R = torch.linalg.cholesky(K) if gps.forms[0] == "toeplitz" else dense.symmetric_root(K)
    mean = gps.posterior.mean.flatten(1)
    if gps.posterior.whitened:
        mean, L = (R @ mean.unsqueeze(-1)).squeeze(-1), R @ L
    return Dense(mean, L @ L.mT, K, L, R)


def axis_covariances(gps: LatticeGPs) -> list[Tensor]:
    """Compute K_d of each axis, (J, m_d, m_d); the first has the variance."""
    covariances = []
    for d, (form, size) in enumerate(zip(gps.forms, gps.grid.sizes, strict=True)):
        correlation = dense.line_correlation if form == "toeplitz" else dense.ring_correlation
        K = torch.stack([correlation(KERNELS[d], raw.exp(), size) for raw in gps.kernel.axes[d].log_lengthscale])
        K = K + gps.jitter * K[:, :1, :1] * torch.eye(size, dtype=torch.float64)
        covariances.append(gps.kernel.log_variance.exp()[:, None, None] * K if d == 0 else K)
    return covariances


def softplus(raw: Tensor) -> Tensor:
    return torch.log(1 + torch.exp(raw))


def axis_factor(factor: torch.nn.Module) -> Tensor:
    """Compute L_d of one axis, (J, m_d, m_d), from the raw parameters of its family."""
    if isinstance(factor, CholeskyFactor):
        below = torch.ones(factor.size, factor.size, dtype=torch.float64).tril(-1)
        return factor.raw * below + torch.stack([torch.diag(softplus(raw.diagonal())) for raw in factor.raw])
    if isinstance(factor, BandedFactor):
        return dense.banded(torch.cat([softplus(factor.raw_diagonal).unsqueeze(1), factor.lower], 1))
    return torch.stack([torch.diag(softplus(raw)) for raw in factor.raw])
