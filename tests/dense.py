"""Slow dense references in float64, written out from the definitions and from the paper, sharing no code with svdkl."""

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
        torch.logdet(prior)
        - torch.logdet(covariance)
        - m
        + torch.trace(inverse @ covariance)
        + mean @ inverse @ mean
    )


def normal_log_density(y: Tensor, covariance: Tensor) -> Tensor:
    """log N(y; 0, covariance)."""
    return -0.5 * (y @ torch.linalg.solve(covariance, y) + torch.logdet(covariance) + len(y) * math.log(2 * math.pi))
