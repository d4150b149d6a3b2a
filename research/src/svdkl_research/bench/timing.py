"""Times of steps that take turns, and what is told of them: medians, quartiles, ratios, slopes."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

Step = Callable[[], object]


def interleaved(
    steps: Mapping[str, Step], repeats: int, warm_up: int = 2, deadline: float = math.inf
) -> dict[str, list[float]]:
    """Seconds of each step, one after the other in every round, so that a slow moment of the machine hits all.

    Parameters
    ----------
    steps
        By name.
    repeats, warm_up
        Rounds that count, and those before them that do not.
    deadline
        On the clock of ``time.monotonic``. There is always one round that counts, and no further one that would end
        later; of the rounds that do not count, all but the first are left out if they would take a tenth of the time.
    """
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    longest = 0.0
    for number in range(-warm_up, repeats):
        left = deadline - time.monotonic()
        if (-warm_up < number < 0 and longest > left / 10) or (number > 0 and longest > left):
            continue
        start = time.monotonic()
        for name, step in steps.items():
            began = time.perf_counter()
            step()
            if number >= 0:
                seconds[name].append(time.perf_counter() - began)
        longest = max(longest if number > 0 else 0.0, time.monotonic() - start)
    return seconds


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The lower quartile, the median and the upper quartile; three times the same of a single value."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def ratios(seconds: Mapping[str, Sequence[float]], base: str) -> dict[str, dict[str, float]]:
    """Median and quartiles of each step's time, of its ratio to the base step of the same round and of the
    difference to it, in seconds.
    """
    table = {}
    for name, values in seconds.items():
        pairs = list(zip(values, seconds[base], strict=True))
        low, middle, high = quartiles(values)
        ratio_low, ratio, ratio_high = quartiles([value / reference for value, reference in pairs])
        more_low, more, more_high = quartiles([value - reference for value, reference in pairs])
        table[name] = {
            "milliseconds": 1e3 * middle,
            "milliseconds_low": 1e3 * low,
            "milliseconds_high": 1e3 * high,
            "ratio": ratio,
            "ratio_low": ratio_low,
            "ratio_high": ratio_high,
            "more": more,
            "more_low": more_low,
            "more_high": more_high,
        }
    return table


def slope(sizes: Sequence[int | float], seconds: Sequence[int | float]) -> float | None:
    """The exponent of a power law through the points, by least squares of logarithms; None of fewer than two."""
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in seconds]
    if len(set(x)) < 2:
        return None
    return statistics.linear_regression(x, y).slope
