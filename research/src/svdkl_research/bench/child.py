"""The worker that measures one task within its limits: ``python -m svdkl_research.bench.child REQUEST``.

The request is a JSON document. The answer is one, too, in the last line of the standard output.
"""

import json
import math
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch

from svdkl_research.bench.operations import where_time_goes
from svdkl_research.bench.setting import Setting
from svdkl_research.bench.studies import PROFILE, Task
from svdkl_research.bench.systems import SYSTEMS
from svdkl_research.bench.timing import interleaved

MEASURED, OUT_OF_MEMORY = "measured", "out of memory"
# torch and its libraries raise errors of many classes when memory runs out; these words are common to their messages.
MEMORY_WORDS = ("can't allocate memory", "cannot allocate memory", "bad_alloc", "out of memory", "memoryerror")


def measure(task: Task, deadline: float = math.inf, memory: int | None = None) -> dict[str, Any]:
    """Build the steps of a task and time them.

    Parameters
    ----------
    deadline
        Time on the clock of ``time.monotonic`` by which to end.
    memory
        Bytes that the steps may take beyond what the libraries hold.
    """
    torch.manual_seed(0)
    makers = {name: SYSTEMS[name].load() for name in task.systems}
    try:
        if memory is not None:
            limit_memory(memory)
        steps = {name: make(task.setting) for name, make in makers.items()}
        if task.study == PROFILE:
            found: dict[str, Any] = {"operations": where_time_goes(steps[task.system], task.repeats)}
        else:
            found = {"seconds": interleaved(steps, task.repeats, deadline=deadline)}
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or says_out_of_memory(str(error)):
            return {"status": OUT_OF_MEMORY}
        raise
    return {"status": MEASURED, **found, "peak_memory": _peak_memory()}


def says_out_of_memory(text: str) -> bool:
    """Tell whether an error message says that memory ran out."""
    return any(words in text.lower() for words in MEMORY_WORDS)


def limit_memory(more: int) -> None:
    """Limit the address space to ``more`` bytes beyond its present size; do nothing where the system has no limits."""
    try:
        import resource

        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (held + more, hard))


def _peak_memory() -> int | None:
    """Return the most bytes that this worker has held; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Measure the task of the request in the first argument and print the answer."""
    started = time.monotonic()
    request = json.loads(sys.argv[1])
    task = Task(**{**request["task"], "setting": Setting(**request["task"]["setting"])})
    torch.set_num_threads(request["threads"])
    warnings.simplefilter("ignore")
    print(json.dumps(measure(task, started + request["seconds"], request["memory"])))


if __name__ == "__main__":
    main()
