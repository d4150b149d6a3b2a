"""Estimators for tables: scikit-learn's interface to training and prediction."""

from typing import TYPE_CHECKING

from svdkl.doors import door

if TYPE_CHECKING:
    from svdkl.estimators.classifier import SVDKLClassifier
    from svdkl.estimators.regressor import SVDKLRegressor

__all__ = ["SVDKLClassifier", "SVDKLRegressor"]

__getattr__ = door(
    __name__,
    {"SVDKLClassifier": "svdkl.estimators.classifier", "SVDKLRegressor": "svdkl.estimators.regressor"},
)
