"""Imports, each in a fresh Python interpreter."""

import subprocess
import sys

from svdkl_research.bench.setting import Setting
from svdkl_research.bench.timing import Step


def torch_alone(setting: Setting) -> Step:
    """Import torch, as any program that uses it does."""
    return _running("import torch")


def with_package(setting: Setting) -> Step:
    """Import torch and svdkl, which loads its modules only when they are used."""
    return _running("import torch, svdkl")


def with_model(setting: Setting) -> Step:
    """Import torch and the modules of svdkl that a model needs."""
    return _running("import torch; from svdkl import SVDKL")


def _running(program: str) -> Step:
    return lambda: subprocess.run([sys.executable, "-c", program], check=True)
