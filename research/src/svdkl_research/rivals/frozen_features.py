"""GPs on the features of a plain network whose training is over: the paper's DNN+GP."""

from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.image_networks import ImageClassifier
from svdkl_research.rivals.interface import ClassBaseline, Floats, Gaussian, Labels, RealBaseline, Refined
from svdkl_research.rivals.networks import NetworkClassifier, NetworkRegressor


class _OnFrozenFeatures(Refined):
    """A plain network; once refined, a copy of it with GPs in place of the last layer."""

    network: NetworkClassifier | ImageClassifier | NetworkRegressor

    def refine(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels) -> None:
        """Fit GPs to the features of the finished network."""
        self.network = self.network.with_gps(X, y, X_held_out, y_held_out)

    def numbers(self) -> dict[str, float]:
        """Return nothing: the findings hold all numbers."""
        return {}


class FrozenFeaturesClassifier(_OnFrozenFeatures, ClassBaseline):
    """GPs on frozen features for classes, on tables or images."""

    network: NetworkClassifier | ImageClassifier

    def __init__(self, network: NetworkClassifier | ImageClassifier) -> None:
        self.network = network

    def predict_proba(self, X: Inputs) -> Floats:
        """Return the class probabilities of each row, shape (rows, C)."""
        return self.network.predict_proba(X)

    def ood_scores(self, X: Inputs) -> dict[str, Floats]:
        """Return what the model with GPs reports."""
        return self.network.ood_scores(X)


class FrozenFeaturesRegressor(_OnFrozenFeatures, RealBaseline):
    """GPs on frozen features for a real target."""

    network: NetworkRegressor

    def __init__(self, network: NetworkRegressor) -> None:
        self.network = network

    def predict_distribution(self, X: Inputs) -> Gaussian:
        """Return the predictive mean and standard deviation of each row, noise included."""
        return self.network.predict_distribution(X)
