"""The operations that a step spends its time on, by torch's profiler."""

from typing import Any

from torch.profiler import ProfilerActivity, profile

from svdkl_research.bench.timing import Step

MOST = 12  # most operations to list


def where_time_goes(step: Step, repeats: int) -> list[dict[str, Any]]:
    """List the operations that take most time, each with its share of all time and its calls in one step."""
    step()
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as watched:
        for _ in range(repeats):
            step()
    found = sorted(watched.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in found)
    return [
        {
            "operation": event.key,
            "share": event.self_cpu_time_total / total,
            "milliseconds": event.self_cpu_time_total / 1e3 / repeats,
            "calls": event.count / repeats,
        }
        for event in found[:MOST]
    ]
