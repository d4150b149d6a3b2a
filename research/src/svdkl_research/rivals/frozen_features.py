"""Gaussian processes on the features of a plain network whose training is over: the paper's DNN+GP."""

from pathlib import Path
from typing import Any

from svdkl_research.add_head import with_head
from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.image_networks import ImageClassifier
from svdkl_research.rivals.interface import ClassBaseline, Floats, Gaussian, Labels, RealBaseline, Refined
from svdkl_research.rivals.networks import NetworkClassifier, NetworkRegressor


class _OnFrozenFeatures(Refined):
    """A network and, beside it, the network of the same training with processes in its last layer's place."""

    network: NetworkClassifier | ImageClassifier | NetworkRegressor
    with_gps: NetworkClassifier | ImageClassifier | NetworkRegressor

    def refine(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels) -> None:
        """Put processes on the finished network's features."""
        self.with_gps = self.network.holding(with_head(self.network.estimator, X, y, (X_held_out, y_held_out)))

    def numbers(self) -> dict[str, float]:
        """None beside those that the findings have."""
        return {}

    def settings(self) -> dict[str, Any]:
        """Those of the model with processes."""
        return self.with_gps.settings()

    def findings(self) -> dict[str, Any]:
        """How network and processes were trained."""
        return self.with_gps.findings()

    def save_history(self, path: Path) -> None:
        """Write each epoch of both stages."""
        self.with_gps.save_history(path)


class FrozenFeaturesClassifier(_OnFrozenFeatures, ClassBaseline):
    """Of classes, on tables or images."""

    with_gps: NetworkClassifier | ImageClassifier

    def __init__(self, network: NetworkClassifier | ImageClassifier) -> None:
        self.network: NetworkClassifier | ImageClassifier = network

    def predict_proba(self, X: Inputs) -> Floats:
        """Class probabilities (rows, C)."""
        return self.with_gps.predict_proba(X)

    def ood_scores(self, X: Inputs) -> dict[str, Floats]:
        """Those of the model with processes."""
        return self.with_gps.ood_scores(X)


class FrozenFeaturesRegressor(_OnFrozenFeatures, RealBaseline):
    """Of a real target."""

    with_gps: NetworkRegressor

    def __init__(self, network: NetworkRegressor) -> None:
        self.network: NetworkRegressor = network

    def predict_distribution(self, X: Inputs) -> Gaussian:
        """Mean and standard deviation of the predictive distribution, noise included."""
        return self.with_gps.predict_distribution(X)
