"""Times of steps that take turns, and their medians, quartiles, ratios and slopes."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

Step = Callable[[], object]


def interleaved(
    steps: Mapping[str, Step], repeats: int, warm_up: int = 2, deadline: float = math.inf
) -> dict[str, list[float]]:
    """Time the steps one after the other in every round, so that a slow moment of the machine hits all.

    Parameters
    ----------
    steps
        The steps to time, by name.
    repeats, warm_up
        Number of rounds that count, and of rounds before them that do not.
    deadline
        Time on the clock of ``time.monotonic`` by which to end. One round always counts, and none starts that would end
        later. Warm-up rounds after the first are left out if one takes a tenth of the time.
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
    """Return the lower quartile, the median and the upper quartile; a single value is all three."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def ratios(seconds: Mapping[str, Sequence[float]], base: str) -> dict[str, dict[str, float]]:
    """Return the median and quartiles of each step's time, and of its ratio and difference to the base step.

    Ratios and differences, in seconds, are between steps of the same round.
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
    """Fit a power law by least squares of logarithms and return its exponent; None of fewer than two points."""
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in seconds]
    if len(set(x)) < 2:
        return None
    return statistics.linear_regression(x, y).slope
