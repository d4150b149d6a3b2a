"""One number, fitted to validation rows, that corrects the confidence of a trained model.

For classes it is the temperature T of p^(1/T), normalised (Guo et al., 2017). For real targets it is a factor on the
standard deviations.
"""

import numpy as np

from svdkl.metrics.temperature import Temperature
from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.interface import ClassBaseline, Floats, Gaussian, Labels, RealBaseline, Refined

SMALLEST = 1e-30  # smallest factor: zero would leave no distribution


class TemperedClassifier(Refined, ClassBaseline):
    """A model of classes whose probabilities are scaled by a temperature."""

    def __init__(self, network: ClassBaseline) -> None:
        self.network: ClassBaseline = network
        self.temperature = Temperature()

    def refine(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels) -> None:
        """Fit the temperature to the validation rows."""
        self.network = self.network.to_scale()
        self.temperature.fit(self.network.predict_proba(X_held_out), y_held_out)

    def numbers(self) -> dict[str, float]:
        """Return the temperature."""
        return {"temperature": self.temperature.value}

    def predict_proba(self, X: Inputs) -> Floats:
        """Return the class probabilities of each row, shape (rows, C)."""
        return self.temperature.apply(self.network.predict_proba(X))


class ScaledRegressor(Refined, RealBaseline):
    """A model of a real target whose standard deviations are scaled by a factor."""

    def __init__(self, network: RealBaseline) -> None:
        self.network: RealBaseline = network
        self.factor = 1.0

    def refine(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels) -> None:
        """Fit the factor to the validation rows."""
        self.factor = deviation_factor(self.network.predict_distribution(X_held_out), y_held_out)

    def numbers(self) -> dict[str, float]:
        """Return the factor."""
        return {"deviation_factor": self.factor}

    def predict_distribution(self, X: Inputs) -> Gaussian:
        """Return a Gaussian for each row."""
        predicted = self.network.predict_distribution(X)
        return Gaussian(predicted.mean, self.factor * predicted.std)


def deviation_factor(predicted: Gaussian, y: Labels) -> float:
    """Return the factor on the standard deviations that maximises the likelihood of some rows."""
    z = (y.astype(np.float64) - predicted.mean) / predicted.std
    return max(float(np.sqrt(np.mean(z**2))), SMALLEST)
