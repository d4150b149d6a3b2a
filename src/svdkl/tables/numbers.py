"""Scale numbers to a size of about one, whatever their tails, and turn times into numbers."""

import numpy as np
import numpy.typing as npt

from svdkl.tables.column import Array

LINEAR = 3.0  # scales from the centre to the tails: a normal distribution has 99.7 % of its rows within
LARGEST = 1e300  # below the largest float, 1.8e308, so that sums of few such numbers stay finite
# Each pair: the share of rows left out on either side, and the distance between these two quantiles of a standard
# normal distribution. If most rows have one value, the first quantiles coincide, and a later pair is used.
RANGES = ((0.05, 3.290), (0.01, 4.653), (0.001, 6.180), (0.0, 6.180))

DAY = 86_400_000_000  # microseconds of a day
MONDAY = 3  # 1970-01-01 was a Thursday, three days after a Monday
CYCLES = ("hour", "weekday", "month")
PARTS = ("elapsed", *(f"{cycle} {function}" for cycle in CYCLES for function in ("sin", "cos")))


def robust_scale(ordered: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Return centre and scale of sorted values: the median, and the standard deviation that quantiles suggest.

    If there are only two different values, the more frequent one is the centre and their distance the scale: they
    become 0 and 1, or -1 and 0. If all values are equal, the scale is 1.
    """
    last = len(ordered) - 1
    centre, low, high = float(ordered[last // 2]), float(ordered[0]), float(ordered[-1])
    if bool(((ordered == low) | (ordered == high)).all()):
        return centre, _positive(high - low)
    for share, width in RANGES:
        rank = int(share * last)
        # We divide first, since the distance between two floats can exceed the largest float.
        scale = float(ordered[last - rank]) / width - float(ordered[rank]) / width
        if scale > 0:
            return centre, scale
    return centre, _positive(high - low)


def _positive(scale: float) -> float:
    return min(scale, LARGEST) if scale > 0 else 1.0


def compress(values: Array, centre: float, scale: float) -> npt.NDArray[np.float32]:
    """Scale numbers to t = (x - centre) / scale, which beyond three scales grows only like a logarithm.

    The function is increasing and twice continuously differentiable: the tail is 3 + asinh(t - 3).
    """
    with np.errstate(over="ignore"):
        t = (values.astype(np.float64) - centre) / scale
    far = np.flatnonzero(np.abs(t) > LINEAR)
    if len(far):
        tail = np.clip(t[far], -LARGEST, LARGEST)
        t[far] = np.copysign(LINEAR + np.arcsinh(np.abs(tail) - LINEAR), tail)
    return t.astype(np.float32)


def time_part(times: Array, part: str) -> npt.NDArray[np.float64]:
    """Return one number for each datetime64[us]: seconds since 1970, or the sine or cosine of a cycle.

    Weekdays and months turn in steps; the hour changes continuously within the day.
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
