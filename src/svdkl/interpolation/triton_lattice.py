"""Marginals of GPs of one, two and three dimensions in one pass over the positions, value and gradient, on GPUs.

Sums over points, for the gradients of the lattice and of the cubics, are added up in float64 by atomic operations.
Their order differs from run to run, but float64 hides that from single precision.
"""

from collections.abc import Sequence
from typing import Any

import torch

from svdkl.derivatives import differentiable_gradients
from svdkl.interpolation.backward import DEGREE, root_gradients, rows_by_cell
from svdkl.interpolation.eager import MeanAndVariance, eager_lattice
from svdkl.interpolation.matrix import NEIGHBOURS, lattice_fold_ghosts, lattice_with_ghosts
from svdkl.interpolation.triton_kernels import backward_kernel, forward_kernel
from svdkl.shapes import Float, Tensor

BLOCK = 128
AXES = 3


class TritonMarginals(torch.autograd.Function):
    """Mean and variance from values on a lattice and per-cell cubics along its axes."""

    @staticmethod
    def forward(
        ctx: Any,
        values: Float[Tensor, "J ..."],
        positions: Float[Tensor, "B J D"],
        *roots: Float[Tensor, "4 4 J _"],
    ) -> MeanAndVariance:
        """Both in one pass over the rows."""
        num_dims = positions.shape[-1]
        padded = lattice_with_ghosts(values, num_dims).contiguous()
        places = positions.contiguous()
        rows = [rows_by_cell(cubics) for cubics in roots]
        ctx.save_for_backward(values, positions, *roots, padded, places, *rows)
        mean, variance = torch.empty_like(places[..., 0]), torch.empty_like(places[..., 0])
        _run(forward_kernel, places, rows, [padded, *_three(rows), places, mean, variance])
        return mean, variance

    @staticmethod
    def backward(ctx: Any, grad_mean: Tensor, grad_variance: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of values, positions and roots."""
        num_dims = ctx.saved_tensors[1].shape[-1]
        inputs, (padded, places, *rows) = ctx.saved_tensors[: 2 + num_dims], ctx.saved_tensors[2 + num_dims :]
        if torch.is_grad_enabled():
            return differentiable_gradients(eager_lattice, inputs, (grad_mean, grad_variance))
        grad_positions = torch.empty_like(places)
        grad_padded = torch.zeros_like(padded, dtype=torch.float64)
        moments = [r.new_zeros(*r.shape[:2], DEGREE + 1, dtype=torch.float64) for r in rows]
        gradients = [grad_mean.contiguous(), grad_variance.contiguous(), grad_positions, grad_padded]
        _run(backward_kernel, places, rows, [padded, *_three(rows), places, *gradients, *_three(moments)])
        grad_roots = [
            root_gradients(r.double(), m).to(r.dtype).permute(2, 3, 0, 1) for r, m in zip(rows, moments, strict=True)
        ]
        return lattice_fold_ghosts(grad_padded, num_dims).to(padded.dtype), grad_positions, *grad_roots


def _three(tensors: Sequence[Tensor]) -> list[Tensor]:
    """One for each axis of the kernel; those of the axes that are not there are never read."""
    return [*[tensors[0]] * (AXES - len(tensors)), *tensors]


def _run(kernel: Any, positions: Float[Tensor, "B J D"], rows: Sequence[Tensor], arrays: list[Tensor]) -> None:
    num_rows, num_gps, num_dims = positions.shape
    num_points = num_rows * num_gps
    if num_points == 0:  # an empty grid cannot be launched
        return
    cells = [*[1] * (AXES - num_dims), *(r.shape[1] for r in rows)]
    taps = [1 if axis < AXES - num_dims else NEIGHBOURS for axis in range(AXES - 1)]
    grid = (-(-num_points // BLOCK),)
    with torch.cuda.device_of(positions):
        kernel[grid](*arrays, num_points, num_gps, *cells, D=num_dims, TAPS0=taps[0], TAPS1=taps[1], BLOCK=BLOCK)
