"""One number, fitted to validation rows, that makes a trained model's predictions as sure as they should be.

For classes it is the temperature: p^(1/T), normalised (Guo et al., 2017). For real targets, a factor on the deviations.
"""

import math

import numpy as np
from scipy.optimize import minimize_scalar

from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.interface import ClassBaseline, Floats, Gaussian, Labels, RealBaseline, Refined

LOG_RANGE = math.log(20.0)
# Of log T before any row is seen. Where thousands of rows tell it, networks here have temperatures of 0.87 to 1.19;
# some dozens that are all predicted right tell nothing of the errors to come, and have no best temperature above zero.
PRIOR_DEVIATION = 0.5
SMALLEST = 1e-30  # probabilities in single precision may be exactly 0


class Temperature:
    """One number that makes probabilities more or less sure, and leaves their order as it is."""

    def __init__(self) -> None:
        self.value = 1.0

    def fit(self, probabilities: Floats, labels: Labels) -> None:
        """Choose the temperature of largest posterior probability.

        With this normal prior on log T, the mean negative log probability of N rows is at most 2 (log T)² / N above the
        least, that of the likeliest T: nothing in three digits where N is in the thousands.
        """
        log_p = np.log(np.maximum(probabilities.astype(np.float64), SMALLEST))
        y = labels.astype(np.int64)

        def loss(log_temperature: float) -> float:
            scaled = log_p / math.exp(log_temperature)
            likelihood = float((scaled[np.arange(len(y)), y] - _log_sum_exp(scaled)).sum())
            return 0.5 * (log_temperature / PRIOR_DEVIATION) ** 2 - likelihood

        found = minimize_scalar(loss, bounds=(-LOG_RANGE, LOG_RANGE), method="bounded", options={"xatol": 1e-4})
        self.value = math.exp(float(found.x))

    def apply(self, probabilities: Floats) -> Floats:
        """The scaled probabilities."""
        log_p = np.log(np.maximum(probabilities.astype(np.float64), SMALLEST)) / self.value
        return np.exp(log_p - _log_sum_exp(log_p)[:, None])


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


def _log_sum_exp(values: Floats) -> Floats:
    top = values.max(1)
    return top + np.log(np.exp(values - top[:, None]).sum(1))
