"""Imports, each in a fresh interpreter."""

import subprocess
import sys

from svdkl_research.bench.setting import Setting
from svdkl_research.bench.timing import Step


def torch_alone(setting: Setting) -> Step:
    """What any program on torch waits for."""
    return _running("import torch")


def with_package(setting: Setting) -> Step:
    """The package, which loads its parts when they are asked for."""
    return _running("import torch, svdkl")


def with_model(setting: Setting) -> Step:
    """The package and all that a model needs."""
    return _running("import torch; from svdkl import SVDKL")


def _running(program: str) -> Step:
    return lambda: subprocess.run([sys.executable, "-c", program], check=True)
