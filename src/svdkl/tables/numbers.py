"""Numbers of any size to numbers of the size of one, in a way that far tails do not disturb.

Times as numbers: how long ago, and where in the day, the week and the year.
"""

import numpy as np
import numpy.typing as npt

from svdkl.tables.column import Array

LINEAR = 3.0  # how many scales from the centre the tails begin
LARGEST = 1e300
# Shares of the rows left out on either side, and the distance between those two quantiles of a standard normal. The
# outer pairs serve columns with most rows at one value, for which the inner ones coincide.
RANGES = ((0.05, 3.290), (0.01, 4.653), (0.001, 6.180), (0.0, 6.180))

DAY = 86_400_000_000  # microseconds
MONDAY = 3  # days from Monday to 1970-01-01
CYCLES = ("hour", "weekday", "month")
PARTS = ("elapsed", *(f"{cycle} {function}" for cycle in CYCLES for function in ("sin", "cos")))


def robust_scale(ordered: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Centre and scale of sorted values: their median, and what would be the standard deviation of normal ones.

    Of two different values, the more frequent one is the centre and their distance the scale, so that they become 0 and
    1, or -1 and 0. Values that are all equal have scale 1.
    """
    last = len(ordered) - 1
    centre, low, high = float(ordered[last // 2]), float(ordered[0]), float(ordered[-1])
    if bool(((ordered == low) | (ordered == high)).all()):
        return centre, _positive(high - low)
    for share, width in RANGES:
        rank = int(share * last)
        # Divided first, since the distance of two numbers can exceed the largest one.
        scale = float(ordered[last - rank]) / width - float(ordered[rank]) / width
        if scale > 0:
            return centre, scale
    return centre, _positive(high - low)


def _positive(scale: float) -> float:
    return min(scale, LARGEST) if scale > 0 else 1.0


def compress(values: Array, centre: float, scale: float) -> npt.NDArray[np.float32]:
    """(x - centre) / scale within three scales, and beyond that growing like a logarithm.

    Increasing and twice continuously differentiable: the tail is 3 + asinh(t - 3).
    """
    with np.errstate(over="ignore"):
        t = (values.astype(np.float64) - centre) / scale
    far = np.flatnonzero(np.abs(t) > LINEAR)
    if len(far):
        tail = np.clip(t[far], -LARGEST, LARGEST)
        t[far] = np.copysign(LINEAR + np.arcsinh(np.abs(tail) - LINEAR), tail)
    return t.astype(np.float32)


def time_part(times: Array, part: str) -> npt.NDArray[np.float64]:
    """One number for each datetime64[us]: seconds since 1970, or a coordinate on the circle of a cycle.

    Weekdays and months turn in steps, the hour runs on within the day.
    """
    microseconds = times.astype(np.int64)
    if part == "elapsed":
        return microseconds / 1e6
    cycle, function = part.split()
    if cycle == "hour":
        turn = (microseconds % DAY) / DAY
    elif cycle == "weekday":
        turn = (microseconds // DAY + MONDAY) % 7 / 7
    else:
        turn = times.astype("datetime64[M]").astype(np.int64) % 12 / 12
    return np.sin(2 * np.pi * turn) if function == "sin" else np.cos(2 * np.pi * turn)
