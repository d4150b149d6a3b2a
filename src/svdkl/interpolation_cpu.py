"""Marginals from per-cell cubics in one pass over the positions: the fused kernel for CPUs.

The eager path reads and writes some forty tensors of the size of the positions, forward and back; this one reads the
positions and writes the two results. Compiled by numba at first use and cached on disk. The loops release the
interpreter's lock and run on plain threads: numba's own thread pool may not be entered twice at a time.
"""

import threading
from collections.abc import Callable
from functools import cache
from typing import Any, no_type_check

import torch
from torch.autograd.function import once_differentiable

from svdkl.shapes import Float, Tensor

POINTS_PER_THREAD = 16_384  # below this a thread costs more than it brings
ROOTS = 4


@cache
def _kernels() -> tuple[Callable[..., None], Callable[..., None]]:
    """Compile, or load what an earlier process has compiled. Without a place to write, compile for this process."""
    import numba

    # Not "nnan": a NaN must stay one.
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract", "reassoc", "arcp", "nsz"}, "error_model": "numpy"}

    def jit(function: Callable[..., None]) -> Callable[..., None]:
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:
            return numba.njit(**options)(function)

    return jit(_forward), jit(_backward)


@no_type_check  # nothing may wrap what numba compiles
def _forward(table, positions, mean, variance, start, stop):
    num_cells, num_functions = table.shape[1], table.shape[2]
    first_root = num_functions - ROOTS
    for b in range(start, stop):
        for j in range(positions.shape[1]):
            p = min(max(positions[b, j], 0), num_cells)
            c = min(int(p), num_cells - 1) if p == p else 0
            t = p - c
            total = p - p  # zero of the right type, and NaN for a NaN
            for k in range(num_functions):
                row = table[j, c, k]
                y = ((row[3] * t + row[2]) * t + row[1]) * t + row[0]
                if k < first_root:
                    mean[b, j] = y
                else:
                    total += y * y
            variance[b, j] = total


@no_type_check
def _backward(table, positions, grad_mean, grad_variance, grad_positions, grad_table, start, stop):
    num_cells, num_functions = table.shape[1], table.shape[2]
    first_root = num_functions - ROOTS
    for b in range(start, stop):
        for j in range(positions.shape[1]):
            p = min(max(positions[b, j], 0), num_cells)
            c = min(int(p), num_cells - 1) if p == p else 0
            t = p - c
            slope = p - p
            for k in range(num_functions):
                row = table[j, c, k]
                if k < first_root:
                    g = grad_mean[b, j]
                else:
                    g = 2 * grad_variance[b, j] * (((row[3] * t + row[2]) * t + row[1]) * t + row[0])
                slope += g * ((3 * row[3] * t + 2 * row[2]) * t + row[1])
                out = grad_table[j, c, k]
                out[0] += g
                g *= t
                out[1] += g
                g *= t
                out[2] += g
                out[3] += g * t
            inside = 0 <= positions[b, j] <= num_cells
            grad_positions[b, j] = slope if inside else 0 * slope


def _on_threads(work: Callable[[int, int, int], None], num_rows: int, num_points: int) -> int:
    """Cut the rows into runs and call ``work(number, start, stop)`` for each on its own thread; how many there were."""
    count = max(1, min(torch.get_num_threads(), num_points // POINTS_PER_THREAD))
    bounds = [num_rows * i // count for i in range(count + 1)]
    threads = [threading.Thread(target=work, args=(i, bounds[i], bounds[i + 1])) for i in range(1, count)]
    for thread in threads:
        thread.start()
    work(0, bounds[0], bounds[1])
    for thread in threads:
        thread.join()
    return count


class FusedMarginals(torch.autograd.Function):
    """The eager path of :meth:`svdkl.inducing.marginal.MarginalTables.at` for one axis, value and gradient."""

    @staticmethod
    def forward(
        ctx: Any, table: Float[Tensor, "K 4 J cells"], positions: Float[Tensor, "B J"]
    ) -> tuple[Float[Tensor, "B J"], Float[Tensor, "B J"]]:
        """Mean (the first of K = 5 functions; zero if K = 4) and variance (the sum of the last four's squares)."""
        rows = table.permute(2, 3, 0, 1).contiguous()  # all that a point reads lies together
        positions = positions.contiguous()
        mean = torch.zeros_like(positions)
        variance = torch.empty_like(positions)
        arrays = [x.detach().numpy() for x in (rows, positions, mean, variance)]
        forward, _ = _kernels()
        _on_threads(lambda _, start, stop: forward(*arrays, start, stop), len(positions), positions.numel())
        ctx.save_for_backward(rows, positions)
        return mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_mean: Tensor, grad_variance: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of table and positions; each thread adds up a table of its own."""
        rows, positions = ctx.saved_tensors
        grad_positions = torch.empty_like(positions)
        # Float64 sums: thousands of rows fall into one cell.
        grad_tables = rows.new_zeros(max(1, torch.get_num_threads()), *rows.shape, dtype=torch.float64)
        inputs = [x.contiguous().numpy() for x in (rows, positions, grad_mean, grad_variance, grad_positions)]
        tables = grad_tables.numpy()
        _, backward = _kernels()
        _on_threads(
            lambda i, start, stop: backward(*inputs, tables[i], start, stop), len(positions), positions.numel()
        )
        return grad_tables.sum(0).to(rows.dtype).permute(2, 3, 0, 1), grad_positions
