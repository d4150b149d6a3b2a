"""Loops for CPUs: compiled by numba, cached on disk, run on plain threads.

The loops release the interpreter's lock. Numba's own thread pool may not be entered twice at a time, plain threads may.

Second derivatives of functions whose backward pass is written by hand.
"""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numba
import torch

from svdkl.shapes import Tensor

ENTRIES_PER_THREAD = 500_000  # of matrices; below this a thread costs more than it brings

# Not "nnan": a NaN must stay one.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "fastmath": {"contract", "reassoc", "arcp", "nsz"},
    "error_model": "numpy",
}


def jit(function: Callable[..., Any]) -> Any:
    """Compile at the first call, or load what an earlier process has compiled.

    Without a place to write, compile for this process alone.
    """
    try:
        return numba.njit(cache=True, **OPTIONS)(function)
    except RuntimeError:
        return numba.njit(**OPTIONS)(function)


def num_threads(num_points: int, points_per_thread: int) -> int:
    """How many threads are worth their start."""
    return max(1, min(torch.get_num_threads(), num_points // points_per_thread))


def on_threads(tasks: Sequence[Callable[[], None]], count: int) -> None:
    """Call all tasks, dealt out to so many threads."""
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
    """Call tasks one after the other; what one of them raises would end the thread and nothing else, so it is kept."""
    try:
        for task in tasks:
            task()
    except BaseException as error:
        errors.append(error)


def on_slices(loop: Callable[..., None], *inputs: torch.Tensor, into: Sequence[torch.Tensor], entries: int) -> None:
    """Call a loop on tensors of one length, with a slice of it for each thread that so many entries are worth.

    The loop gets arrays of the inputs, then those it writes into, then the ends of its slice.
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
    """Gradients that can be differentiated again, which only the eager path has. None for inputs that need none."""
    wanted = [x for x in inputs if x.requires_grad]
    # With some inputs frozen, an output may depend on none of the others.
    pairs = [(y, grad) for y, grad in zip(eager(*inputs), gradients, strict=True) if y.requires_grad]
    outputs, cotangents = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(outputs, wanted, cotangents, create_graph=True))
    return tuple(next(found) if x.requires_grad else None for x in inputs)
