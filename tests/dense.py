"""Slow dense references in float64, written from the definitions and the paper, which share no code with svdkl."""

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def keys(s: Tensor) -> Tensor:
    """Keys' cubic convolution kernel with a = -1/2."""
    s = s.abs()
    near = 1.5 * s**3 - 2.5 * s**2 + 1
    far = -0.5 * s**3 + 2.5 * s**2 - 4 * s + 2
    return torch.where(s <= 1, near, torch.where(s <= 2, far, torch.zeros_like(s)))


def axis_rows(position: Tensor, size: int) -> Tensor:
    """Rows of the interpolation matrix of one axis, (B, size); ghost points are quadratic extrapolations."""
    points = torch.arange(-1, size + 1, dtype=torch.float64)
    ghost = keys(position.clamp(0, size - 1)[:, None] - points)
    rows = ghost[:, 1:-1].clone()
    for k, factor in enumerate((3.0, -3.0, 1.0)):
        rows[:, k] = rows[:, k] + factor * ghost[:, 0]
        rows[:, size - 1 - k] = rows[:, size - 1 - k] + factor * ghost[:, -1]
    return rows


def interpolation_matrix(positions: Tensor, sizes: Sequence[int]) -> Tensor:
    """M of one GP, (B, m), for positions (B, D) in grid points; grid points are numbered with the last axis fastest."""
    rows = torch.ones(positions.shape[0], 1, dtype=torch.float64)
    for d, size in enumerate(sizes):
        rows = torch.einsum("bi,bk->bik", rows, axis_rows(positions[:, d], size)).flatten(1)
    return rows


def kron(*matrices: Tensor) -> Tensor:
    """The Kronecker product, element by element."""
    result = matrices[0]
    for matrix in matrices[1:]:
        result = torch.einsum("ab,cd->acbd", result, matrix).reshape(
            result.shape[0] * matrix.shape[0], result.shape[1] * matrix.shape[1]
        )
    return result


def grid_points(sizes: Sequence[int]) -> Tensor:
    """All grid points in the unit cube, (m, D), the last axis fastest."""
    axes = [[i / (size - 1) for i in range(size)] for size in sizes]
    return torch.tensor(list(itertools.product(*axes)), dtype=torch.float64)


def kernel_matrix(correlations: Sequence[Callable[[Tensor], Tensor]], variance: Tensor, sizes: Sequence[int]) -> Tensor:
    """K over all pairs of grid points: variance * prod_d k_d(|x_d - x'_d|)."""
    points = grid_points(sizes)
    distance = (points[:, None, :] - points[None, :, :]).abs()
    result = variance * torch.ones(distance.shape[:2], dtype=torch.float64)
    for d, correlation in enumerate(correlations):
        result = result * correlation(distance[..., d])
    return result


def kl_gaussians(mean: Tensor, covariance: Tensor, prior: Tensor) -> Tensor:
    """KL(N(mean, covariance) || N(0, prior)) from its definition; the constant is m."""
    m = mean.shape[0]
    inverse = torch.linalg.inv(prior)
    return 0.5 * (
        torch.logdet(prior) - torch.logdet(covariance) - m + torch.trace(inverse @ covariance) + mean @ inverse @ mean
    )


def normal_log_density(y: Tensor, covariance: Tensor) -> Tensor:
    """log N(y; 0, covariance)."""
    return -0.5 * (y @ torch.linalg.solve(covariance, y) + torch.logdet(covariance) + len(y) * math.log(2 * math.pi))


# ------------------------------------------------------------------------------------------------- structured matrices


def toeplitz(column: Tensor) -> Tensor:
    """T[i, k] = column[|i - k|]."""
    m = column.shape[-1]
    return torch.stack([torch.stack([column[..., abs(i - k)] for k in range(m)], -1) for i in range(m)], -2)


def circulant(column: Tensor) -> Tensor:
    """C[i, k] = column[(i - k) mod m]."""
    m = column.shape[-1]
    return torch.stack([torch.stack([column[..., (i - k) % m] for k in range(m)], -1) for i in range(m)], -2)


def banded(bands: Tensor) -> Tensor:
    """L[i + k, i] = bands[k, i]."""
    width, m = bands.shape[-2:]
    zero = torch.zeros_like(bands[..., 0, 0])
    rows = [[bands[..., i - c, c] if 0 <= i - c < width else zero for c in range(m)] for i in range(m)]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def krons(factors: Sequence[Tensor]) -> Tensor:
    """The Kronecker product for each GP, of factors (J, m_d, m_d)."""
    return torch.stack([kron(*one) for one in zip(*factors, strict=True)])


class _SymmetricRoot(torch.autograd.Function):
    """R with R R = K; its differential solves dR R + R dR = dK, which repeated eigenvalues do not disturb."""

    @staticmethod
    def forward(ctx, matrix: Tensor) -> Tensor:
        values, vectors = torch.linalg.eigh(matrix)
        ctx.save_for_backward(values.sqrt(), vectors)
        return vectors @ torch.diag_embed(values.sqrt()) @ vectors.mT

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        roots, vectors = ctx.saved_tensors
        inner = vectors.mT @ grad @ vectors / (roots.unsqueeze(-1) + roots.unsqueeze(-2))
        return vectors @ inner @ vectors.mT


def symmetric_root(matrix: Tensor) -> Tensor:
    """The symmetric square root of a positive definite matrix."""
    return _SymmetricRoot.apply(matrix)


# ------------------------------------------------------------------------------------------------------- many GPs


CORRELATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # of distance and lengthscale
    "rbf": lambda d, ls: torch.exp(-(d**2) / (2 * ls**2)),
    "matern12": lambda d, ls: torch.exp(-d / ls),
    "matern32": lambda d, ls: (1 + 3**0.5 * d / ls) * torch.exp(-(3**0.5) * d / ls),
    "matern52": lambda d, ls: (1 + 5**0.5 * d / ls + 5 * d**2 / (3 * ls**2)) * torch.exp(-(5**0.5) * d / ls),
}


def line_correlation(kernel: str, lengthscale: Tensor, size: int) -> Tensor:
    """Correlations between all pairs of points of one axis from 0 to 1."""
    points = grid_points([size])
    return CORRELATIONS[kernel]((points - points.mT).abs(), lengthscale)


def ring_correlation(kernel: str, lengthscale: Tensor, size: int, turns: int = 12) -> Tensor:
    """Correlations on the ring to which an axis closes one spacing past its end, summed over all ways around."""
    points = grid_points([size])
    laps = [turn * size / (size - 1) for turn in range(-turns, turns + 1)]
    return sum(CORRELATIONS[kernel]((points - points.mT + lap).abs(), lengthscale) for lap in laps)


def interpolation_matrices(positions: Tensor, sizes: Sequence[int]) -> Tensor:
    """M of each GP, (J, B, m), for positions (B, J, D)."""
    return torch.stack([interpolation_matrix(one, sizes) for one in positions.unbind(1)])
