"""scikit-learn estimators: a table and its targets in, predictive distributions out."""

from svdkl.estimators.classifier import SVDKLClassifier
from svdkl.estimators.regressor import SVDKLRegressor

__all__ = ["SVDKLClassifier", "SVDKLRegressor"]
