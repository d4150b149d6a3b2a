"""Stochastic variational deep kernel learning."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from svdkl.estimators import SVDKLClassifier, SVDKLRegressor
    from svdkl.gp.head import GPHead
    from svdkl.model import SVDKL
    from svdkl.nets.mlp import MLP
    from svdkl.replace import replace_classifier

__version__ = "0.1.0"

__all__ = ["MLP", "SVDKL", "GPHead", "SVDKLClassifier", "SVDKLRegressor", "__version__", "replace_classifier"]

# Imported when first asked for: torch and scikit-learn take seconds that a command's --help need not wait.
_HOMES = {
    "MLP": "svdkl.nets.mlp",
    "GPHead": "svdkl.gp.head",
    "SVDKL": "svdkl.model",
    "replace_classifier": "svdkl.replace",
    "SVDKLClassifier": "svdkl.estimators",
    "SVDKLRegressor": "svdkl.estimators",
}


def __getattr__(name: str) -> Any:
    """The public names."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
