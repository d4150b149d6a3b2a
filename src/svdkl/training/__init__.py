"""Training: the recipe, its stages, and what keeps them going."""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """``run`` and ``RunConfig`` under the name that launchers know; they are made of estimators, above this layer."""
    if name in ("RunConfig", "run"):
        return getattr(importlib.import_module("svdkl.estimators.run"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
