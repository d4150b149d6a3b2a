"""Timing by ratios within one run, and where a figure came from."""

import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import torch

RESULTS = Path(__file__).parent.parent / "results" / "bench"


def interleaved(steps: dict[str, Callable[[], object]], repeats: int, warm_up: int = 2) -> dict[str, list[float]]:
    """Seconds of each step, one after the other in every round, so that a slow moment of the machine hits all."""
    for step in steps.values():
        for _ in range(warm_up):
            step()
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def ratios(seconds: dict[str, list[float]], base: str) -> dict[str, dict[str, float]]:
    """Median time, and the median and quartiles of the ratio to the base step of the same round."""
    table = {}
    for name, values in seconds.items():
        quotients = [value / reference for value, reference in zip(values, seconds[base], strict=True)]
        low, middle, high = statistics.quantiles(quotients, n=4)
        table[name] = {
            "milliseconds": 1e3 * statistics.median(values),
            "ratio": middle,
            "ratio_low": low,
            "ratio_high": high,
        }
    return table


def provenance() -> dict[str, object]:
    """What was measured, where and when."""

    def git(*arguments: str) -> str:
        result = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
        )
        return result.stdout.strip()

    processor = next(
        (line.split(":")[1].strip() for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name")),
        platform.processor(),
    )
    return {
        "commit": git("rev-parse", "HEAD")
        + ("+changes" if git("status", "--porcelain", "--", "src", "benchmarks") else ""),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "processor": processor,
        "command": "python " + " ".join(sys.argv),
    }


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def save(name: str, result: dict[str, object]) -> None:
    """Write a result with its provenance to results/bench."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"provenance": provenance(), **result}, indent=2) + "\n")
    print(f"written to {path}")
