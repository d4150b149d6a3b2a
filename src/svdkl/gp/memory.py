"""An estimate of the memory that GPs need, and a refusal before it is allocated."""

import bisect
import math
import os

from svdkl.gp.grid import MIN_POINTS
from svdkl.gp.posterior import family_of_axis
from svdkl.gp.prior import LONG_AXIS

GIB = 2**30  # bytes
COPIES = 4  # Adam holds a parameter, its gradient and two moments
WORKING_COPIES = 6  # as many float64 matrices of a factor's size are alive at the peak of a step, forward and back
POINT_NUMBERS = 330  # float64 numbers a point of an axis: cells, factors and transforms, forward and back
BATCH = 1024  # a generous minibatch: its rows cost little beside the lattices


def estimate_bytes(num_gps: int, sizes: tuple[int, ...], family: str, prior: str = "auto") -> int:
    """Estimate the bytes that training J GPs on one lattice takes: parameters, optimiser state and work of one step.

    ``family`` of q(u) and form of the ``prior`` are given by name or as "auto".
    """
    m = math.prod(sizes)
    dense_family = sum(size * size for size in sizes if family_of_axis(family, size) == "cholesky")
    # Under "auto" a kernel that cannot be summed around a ring is dense on long axes too. The kernel is not known here,
    # and an estimate that is too small is better than a refusal of what fits.
    dense_prior = sum(size * size for size in sizes if prior == "toeplitz" or (prior == "auto" and size < LONG_AXIS))
    parameters = 4 * COPIES * num_gps * (m + dense_family)
    work = 8 * WORKING_COPIES * num_gps * (m + dense_family + dense_prior)
    along_axes = 8 * POINT_NUMBERS * num_gps * sum(sizes)
    rows = 16 * BATCH * num_gps * 4 ** len(sizes)
    return parameters + work + along_axes + rows


def available_bytes() -> int:
    """Return the bytes that are available; a quarter of all memory where the system does not tell."""
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


def too_large(num_gps: int, sizes: tuple[int, ...], family: str, prior: str) -> MemoryError:
    """Make the error for GPs that need more bytes than are available; it names a way out."""
    needed, available = estimate_bytes(num_gps, sizes, family, prior), available_bytes()
    lattice = " x ".join(str(size) for size in sizes)
    candidates = range(MIN_POINTS, max(sizes) + 1)
    fitting = bisect.bisect_right(
        candidates, available, key=lambda size: estimate_bytes(num_gps, (size,) * len(sizes), family, prior)
    )
    way_out = f"grid_size={candidates[fitting - 1]}, " if fitting else ""
    return MemoryError(
        f"Expected GPs that fit into the {available / GIB:.1f} GiB of memory available; {num_gps} of {len(sizes)} "
        f"dimensions on a lattice of {lattice} points need about {needed / GIB:.1f} GiB: use {way_out}fewer dimensions "
        f"a GP, or fewer GPs."
    )
