"""Times as numbers: how long ago, and where in the day, the week and the year."""

import numpy as np
import numpy.typing as npt

from svdkl.tabular.values import Array

DAY = 86_400_000_000  # microseconds
MONDAY = 3  # days from Monday to 1970-01-01
CYCLES = ("hour", "weekday", "month")
PARTS = ("elapsed", *(f"{cycle} {function}" for cycle in CYCLES for function in ("sin", "cos")))


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
