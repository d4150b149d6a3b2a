"""One number, fitted to validation rows, that makes a trained model's predictions as sure as they should be.

For classes it is the temperature: p^(1/T), normalised (Guo et al., 2017). For real targets, a factor on the deviations.
"""

import numpy as np

from svdkl.metrics.temperature import Temperature
from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.interface import ClassBaseline, Floats, Gaussian, Labels, RealBaseline, Refined

SMALLEST = 1e-30  # a factor of zero would leave no distribution


class TemperedClassifier(Refined, ClassBaseline):
    """A model of classes with a temperature."""

    def __init__(self, network: ClassBaseline) -> None:
        self.network: ClassBaseline = network
        self.temperature = Temperature()

    def refine(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels) -> None:
        """Fit the temperature to the validation rows."""
        self.network = self.network.to_scale()
        self.temperature.fit(self.network.predict_proba(X_held_out), y_held_out)

    def numbers(self) -> dict[str, float]:
        """The temperature."""
        return {"temperature": self.temperature.value}

    def predict_proba(self, X: Inputs) -> Floats:
        """Class probabilities (rows, C)."""
        return self.temperature.apply(self.network.predict_proba(X))


class ScaledRegressor(Refined, RealBaseline):
    """A model of a real target with a factor on its deviations."""

    def __init__(self, network: RealBaseline) -> None:
        self.network: RealBaseline = network
        self.factor = 1.0

    def refine(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels) -> None:
        """Fit the factor to the validation rows."""
        self.factor = deviation_factor(self.network.predict_distribution(X_held_out), y_held_out)

    def numbers(self) -> dict[str, float]:
        """The factor."""
        return {"deviation_factor": self.factor}

    def predict_distribution(self, X: Inputs) -> Gaussian:
        """A Gaussian for each row."""
        predicted = self.network.predict_distribution(X)
        return Gaussian(predicted.mean, self.factor * predicted.std)


def deviation_factor(predicted: Gaussian, y: Labels) -> float:
    """What the standard deviations are to be multiplied by for the highest likelihood of some rows."""
    z = (y.astype(np.float64) - predicted.mean) / predicted.std
    return max(float(np.sqrt(np.mean(z**2))), SMALLEST)
