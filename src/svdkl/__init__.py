"""Stochastic variational deep kernel learning."""

from typing import TYPE_CHECKING, Any

from svdkl.features.mlp import MLP
from svdkl.head import GPHead
from svdkl.model import SVDKL
from svdkl.training.replace import replace_classifier

if TYPE_CHECKING:
    from svdkl.estimators import SVDKLClassifier, SVDKLRegressor

__version__ = "0.1.0"

__all__ = ["MLP", "SVDKL", "GPHead", "SVDKLClassifier", "SVDKLRegressor", "__version__", "replace_classifier"]


def __getattr__(name: str) -> Any:
    """The estimators, imported when first asked for: scikit-learn takes a second that others need not wait."""
    if name in ("SVDKLClassifier", "SVDKLRegressor"):
        from svdkl import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
