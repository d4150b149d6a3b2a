"""Where the figures of these scripts go, with what they came from."""

import json
import sys
from pathlib import Path

from svdkl_research.bench.timing import interleaved, ratios
from svdkl_research.suites import provenance as origin

RESULTS = Path(__file__).parent.parent / "results" / "bench"

__all__ = ["RESULTS", "interleaved", "provenance", "ratios", "save"]


def provenance() -> dict[str, object]:
    """What was measured, where and when."""
    return origin.provenance(0, "python " + " ".join(sys.argv))


def save(name: str, result: dict[str, object]) -> None:
    """Write a result with its provenance to results/bench."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"provenance": provenance(), **result}, indent=2) + "\n")
    print(f"written to {path}")
