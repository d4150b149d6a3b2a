"""The origin of a result: code, libraries, machine and date."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import svdkl
from svdkl.errors import version_of

PACKAGES = ("svdkl", "torch", "numpy", "scikit-learn", "pyarrow", "lightgbm", "gpytorch")
SOURCES = (Path(svdkl.__file__).parent, Path(__file__).parents[1])  # svdkl, and this package


def provenance(seed: int, command: str) -> dict[str, Any]:
    """A record of code, libraries, machine and moment, as JSON can hold it."""
    return {
        **_code(),
        "versions": {"python": platform.python_version(), **{name: version_of(name) for name in PACKAGES}},
        "seed": seed,
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command,
    }


def _code() -> dict[str, Any]:
    """The last commit to the sources, and whether they differ from it; None where they are under no git.

    Documents and results lie in the same repository, but only the sources can change a figure.
    """
    folders = [str(folder) for folder in SOURCES]
    known = _git("ls-files", "--error-unmatch", "--", *folders)  # fails in the repository of a project around ours
    commit = None if known is None else _git("log", "-1", "--format=%H", "--", *folders) or None
    changes = _git("status", "--porcelain", "--", *folders)
    return {"commit": commit, "dirty": None if known is None else bool(changes)}


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False, cwd=SOURCES[-1])
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
