"""Stochastic variational deep kernel learning."""

from svdkl.features.mlp import MLP
from svdkl.head import GPHead
from svdkl.model import SVDKL
from svdkl.training.replace import replace_classifier

__version__ = "0.1.0"

__all__ = ["MLP", "SVDKL", "GPHead", "__version__", "replace_classifier"]
