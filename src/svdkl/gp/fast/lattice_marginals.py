"""Marginals of GPs of two and three dimensions on CPUs: value and gradient in one pass over the positions each.

We go GP by GP, so that one lattice at a time is in the cache, with the rows of one GP side by side in memory. Threads
share out the GPs. Only where there are fewer GPs than threads we cut the rows of one into parts, each with its own sums
for the lattice's gradient. Those sums, and the moments, are float64.
"""

from functools import partial
from typing import Any, NamedTuple

import torch

from svdkl.gp.fast import lattice_loops as loops
from svdkl.gp.fast.compiling import differentiable_gradients, num_threads, on_threads
from svdkl.gp.fast.line_loops import DEGREE, POWERS, root_gradients, rows_by_cell
from svdkl.gp.interpolation import MeanAndVariance, eager_lattice, lattice_fold_ghosts, lattice_with_ghosts
from svdkl.shapes import Float, Tensor

POINTS_PER_THREAD = {2: 16_384, 3: 4_096}  # by D: with fewer points a thread takes longer to start than it saves
FORWARD = {2: loops.forward_plane, 3: loops.forward_space}
BACKWARD = {2: loops.backward_plane, 3: loops.backward_space}


class _Part(NamedTuple):
    """Some rows of one GP, and the number of the sums that their gradients add to."""

    gp: int
    number: int
    start: int
    stop: int


def _share_out(num_gps: int, num_rows: int, num_dims: int) -> tuple[list[_Part], int]:
    """Cut the work into parts, and count the threads for them."""
    count = num_threads(num_gps * num_rows, POINTS_PER_THREAD[num_dims])
    cuts = -(-count // max(num_gps, 1))
    bounds = [num_rows * i // cuts for i in range(cuts + 1)]
    return [_Part(j, i, bounds[i], bounds[i + 1]) for j in range(num_gps) for i in range(cuts)], count


class CPULatticeMarginals(torch.autograd.Function):
    """Mean and variance from values on a lattice and each cell's cubics along its axes."""

    @staticmethod
    def forward(
        ctx: Any,
        values: Float[Tensor, "J ..."],
        positions: Float[Tensor, "B J D"],
        *roots: Float[Tensor, "4 4 J _"],
    ) -> MeanAndVariance:
        """Compute mean and variance in one pass over the rows."""
        num_rows, num_gps, num_dims = positions.shape
        padded = lattice_with_ghosts(values, num_dims).flatten(1).contiguous()
        places = positions.transpose(0, 1).contiguous()
        rows = [rows_by_cell(cubics).flatten(2) for cubics in roots]
        mean, variance = places.new_empty(num_gps, num_rows), places.new_empty(num_gps, num_rows)
        ctx.save_for_backward(values, positions, *roots, padded, places, *rows)

        u, x, mu, var = (array.detach().numpy() for array in (padded, places, mean, variance))
        cubics = [array.detach().numpy() for array in rows]
        parts, count = _share_out(num_gps, num_rows, num_dims)
        run = FORWARD[num_dims]
        on_threads(
            [
                partial(run, u[p.gp], tuple(r[p.gp] for r in cubics), x[p.gp], mu[p.gp], var[p.gp], p.start, p.stop)
                for p in parts
            ],
            count,
        )
        return mean.mT.contiguous(), variance.mT.contiguous()

    @staticmethod
    def backward(ctx: Any, grad_mean: Tensor, grad_variance: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of values, positions and roots."""
        num_dims = ctx.saved_tensors[1].shape[-1]
        inputs, (padded, places, *rows) = ctx.saved_tensors[: 2 + num_dims], ctx.saved_tensors[2 + num_dims :]
        if torch.is_grad_enabled():
            return differentiable_gradients(eager_lattice, inputs, (grad_mean, grad_variance))
        values, positions, *_ = inputs
        num_rows, num_gps = positions.shape[:2]
        parts, count = _share_out(num_gps, num_rows, num_dims)
        cuts = 1 + max((p.number for p in parts), default=0)
        grad_places = torch.empty_like(places)
        grad_padded = padded.new_zeros(cuts, *padded.shape, dtype=torch.float64)
        moments = [r.new_zeros(cuts, *r.shape[:2], DEGREE + 1, dtype=torch.float64) for r in rows]

        u, x, g, v, gx, gu = (
            array.contiguous().numpy()
            for array in (padded, places, grad_mean.mT, grad_variance.mT, grad_places, grad_padded)
        )
        cubics, sums = [r.numpy() for r in rows], [m.numpy() for m in moments]
        run = BACKWARD[num_dims]
        on_threads(
            [
                partial(
                    run,
                    u[p.gp],
                    tuple(r[p.gp] for r in cubics),
                    *(x[p.gp], g[p.gp], v[p.gp], gx[p.gp], gu[p.number, p.gp]),
                    tuple(m[p.number, p.gp] for m in sums),
                    *(p.start, p.stop),
                )
                for p in parts
            ],
            count,
        )
        padded_sizes = [size + 2 for size in values.shape[1:]]
        grad_values = lattice_fold_ghosts(grad_padded.sum(0).view(num_gps, *padded_sizes), num_dims)
        grad_roots = [
            root_gradients(r.double().unflatten(-1, (POWERS, POWERS)), m.sum(0)).to(r.dtype).permute(2, 3, 0, 1)
            for r, m in zip(rows, moments, strict=True)
        ]
        return grad_values.to(values.dtype), grad_places.transpose(0, 1), *grad_roots
