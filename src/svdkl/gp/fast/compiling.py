"""Tools of compiled loops for CPUs: numba compiles them, the disk caches them, plain threads run them.

The loops release the interpreter's lock. Two callers at a time may start plain threads, but not numba's thread pool.
"""

import inspect
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numba
import torch

from svdkl.shapes import Tensor

ENTRIES_PER_THREAD = 500_000  # with fewer matrix entries a thread takes longer to start than it saves

# Fast arithmetic, but without "nnan": a NaN must stay a NaN.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"contract", "reassoc", "arcp", "nsz"},
    "error_model": "numpy",
}


def jit(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call, or load it from the cache on disk.

    Where there is no place for a cache, each process compiles for itself. We take off what wraps the function, such as
    the tests' checks of shapes: numba cannot compile that.
    """
    function = inspect.unwrap(function)
    try:
        return numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:
        return numba.njit(**OPTIONS)(function)


def num_threads(num_points: int, points_per_thread: int) -> int:
    """Count the threads that are worth their start."""
    return max(1, min(torch.get_num_threads(), num_points // points_per_thread))


def on_threads(tasks: Sequence[Callable[[], None]], count: int) -> None:
    """Call all tasks on so many threads, the caller's included."""
    errors: list[BaseException] = []
    threads = [threading.Thread(target=_call_all, args=(tasks[i::count], errors)) for i in range(1, count)]
    for thread in threads:
        thread.start()
    _call_all(tasks[::count], errors)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _call_all(tasks: Sequence[Callable[[], None]], errors: list[BaseException]) -> None:
    """Call tasks one after the other. We keep an error for the caller, as it would end this thread alone."""
    try:
        for task in tasks:
            task()
    except BaseException as error:
        errors.append(error)


def on_slices(loop: Callable[..., None], *inputs: torch.Tensor, into: Sequence[torch.Tensor], entries: int) -> None:
    """Run a loop over the first dimension of tensors, in one slice for each thread.

    The loop gets arrays of the inputs, then of ``into``, the contiguous tensors that it writes, then the start and the
    end of its slice. ``entries`` tells how much work there is, in entries of matrices: it decides on the number of
    threads.
    """
    if not all(x.is_contiguous() for x in into):
        raise ValueError("Expected tensors to write into that are contiguous: a loop would write into a copy.")
    length = len(inputs[0])
    count = min(max(length, 1), num_threads(entries, ENTRIES_PER_THREAD))
    arrays = [x.detach().contiguous().numpy() for x in (*inputs, *into)]
    bounds = [length * i // count for i in range(count + 1)]
    on_threads([partial(loop, *arrays, *ends) for ends in pairwise(bounds)], count)


def differentiable_gradients(
    eager: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], gradients: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    """Compute gradients that can be differentiated again, by the eager form; None for inputs that need none."""
    wanted = [x for x in inputs if x.requires_grad]
    # If some inputs are frozen, an output may depend on none of the others.
    pairs = [(y, grad) for y, grad in zip(eager(*inputs), gradients, strict=True) if y.requires_grad]
    outputs, cotangents = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(outputs, wanted, cotangents, create_graph=True))
    return tuple(next(found) if x.requires_grad else None for x in inputs)
