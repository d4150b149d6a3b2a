"""GPs on the features of a plain network whose training is over: the paper's DNN+GP."""

from pathlib import Path
from typing import Any

from svdkl_research.add_head import with_head
from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.image_networks import ImageClassifier
from svdkl_research.rivals.interface import ClassBaseline, Floats, Gaussian, Labels, RealBaseline, Refined
from svdkl_research.rivals.networks import NetworkClassifier, NetworkRegressor


class _OnFrozenFeatures(Refined):
    """A plain network and, beside it, its features with GPs in place of the last layer."""

    network: NetworkClassifier | ImageClassifier | NetworkRegressor
    with_gps: NetworkClassifier | ImageClassifier | NetworkRegressor

    def refine(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels) -> None:
        """Fit GPs to the features of the finished network."""
        self.with_gps = self.network.holding(with_head(self.network.estimator, X, y, (X_held_out, y_held_out)))

    def numbers(self) -> dict[str, float]:
        """Return nothing: the findings hold all numbers."""
        return {}

    def settings(self) -> dict[str, Any]:
        """Return what the model with GPs reports."""
        return self.with_gps.settings()

    def findings(self) -> dict[str, Any]:
        """Return how network and GPs were trained."""
        return self.with_gps.findings()

    def save_history(self, path: Path) -> None:
        """Write the epochs of network and GPs, one JSON object a line."""
        self.with_gps.save_history(path)


class FrozenFeaturesClassifier(_OnFrozenFeatures, ClassBaseline):
    """GPs on frozen features for classes, on tables or images."""

    with_gps: NetworkClassifier | ImageClassifier

    def __init__(self, network: NetworkClassifier | ImageClassifier) -> None:
        self.network: NetworkClassifier | ImageClassifier = network

    def predict_proba(self, X: Inputs) -> Floats:
        """Return the class probabilities of each row, shape (rows, C)."""
        return self.with_gps.predict_proba(X)

    def ood_scores(self, X: Inputs) -> dict[str, Floats]:
        """Return what the model with GPs reports."""
        return self.with_gps.ood_scores(X)


class FrozenFeaturesRegressor(_OnFrozenFeatures, RealBaseline):
    """GPs on frozen features for a real target."""

    with_gps: NetworkRegressor

    def __init__(self, network: NetworkRegressor) -> None:
        self.network: NetworkRegressor = network

    def predict_distribution(self, X: Inputs) -> Gaussian:
        """Return the predictive mean and standard deviation of each row, noise included."""
        return self.with_gps.predict_distribution(X)
