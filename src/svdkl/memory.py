"""How much memory a configuration takes, told before it is taken."""

import bisect
import math
import os

from svdkl.grid import MIN_POINTS
from svdkl.inducing.prior import LONG_AXIS

GIB = 2**30
COPIES = 4  # a parameter, its gradient and the two moments of Adam


def estimate_bytes(
    num_gps: int, sizes: tuple[int, ...], family: str, batch_size: int = 1024, bandwidth: int = 4
) -> int:
    """Bytes that J GPs on one lattice take to train: parameters with optimiser state, and the work of one step."""
    m = math.prod(sizes)
    numbers_per_axis = {"cholesky": lambda n: n * n, "banded": lambda n: n * (bandwidth + 1), "mean_field": lambda n: n}
    factors = sum(numbers_per_axis[family](size) for size in sizes)
    parameters = 4 * COPIES * num_gps * (m + factors)
    prior_roots = 8 * 3 * num_gps * sum(size * size for size in sizes if size < LONG_AXIS)
    mean_work = 8 * 3 * num_gps * m
    rows = 16 * batch_size * num_gps * 4 ** len(sizes)
    return parameters + prior_roots + mean_work + rows


def available_bytes() -> int:
    """Memory that can be had now; a quarter of all where the system does not tell."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    except (AttributeError, OSError, ValueError):
        return 4 * GIB


def refuse_if_too_large(num_gps: int, sizes: tuple[int, ...], family: str) -> None:
    """Raise before allocating what does not fit, with the number and a way out."""
    needed, available = estimate_bytes(num_gps, sizes, family), available_bytes()
    if needed <= available:
        return
    lattice = " x ".join(str(size) for size in sizes)
    candidates = range(MIN_POINTS, max(sizes) + 1)
    fitting = bisect.bisect_right(
        candidates, available, key=lambda size: estimate_bytes(num_gps, (size,) * len(sizes), family)
    )
    way_out = f"grid_size={candidates[fitting - 1]}, " if fitting else ""
    raise MemoryError(
        f"Expected GPs that fit into the {available / GIB:.1f} GiB of memory available; {num_gps} of {len(sizes)} "
        f"dimensions on a lattice of {lattice} points need about {needed / GIB:.1f} GiB: use {way_out}fewer dimensions "
        f"a GP, or fewer GPs."
    )
