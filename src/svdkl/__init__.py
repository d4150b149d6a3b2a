"""Stochastic variational deep kernel learning: deep networks that know what they do not know."""

from typing import TYPE_CHECKING

from svdkl.doors import door

if TYPE_CHECKING:
    from svdkl.estimators import SVDKLClassifier, SVDKLRegressor
    from svdkl.gp.head import GPHead
    from svdkl.model import SVDKL
    from svdkl.nets.mlp import MLP
    from svdkl.replace import replace_classifier

__version__ = "0.1.0"

__all__ = ["MLP", "SVDKL", "GPHead", "SVDKLClassifier", "SVDKLRegressor", "__version__", "replace_classifier"]

__getattr__ = door(
    __name__,
    {
        "MLP": "svdkl.nets.mlp",
        "GPHead": "svdkl.gp.head",
        "SVDKL": "svdkl.model",
        "replace_classifier": "svdkl.replace",
        "SVDKLClassifier": "svdkl.estimators",
        "SVDKLRegressor": "svdkl.estimators",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
