"""One number, fitted to validation rows, that makes a trained model's predictions as sure as they should be.

For classes it is the temperature: p^(1/T), normalised (Guo et al., 2017). For real targets, a factor on the deviations.
"""

import math

import numpy as np
from scipy.optimize import minimize_scalar

from svdkl.experiments.baselines.interface import Floats, Gaussian, Labels

LOG_RANGE = math.log(20.0)
SMALLEST = 1e-30  # probabilities in single precision may be exactly 0


class Temperature:
    """One number that makes probabilities more or less sure, and leaves their order as it is."""

    def __init__(self) -> None:
        self.value = 1.0

    def fit(self, probabilities: Floats, labels: Labels) -> None:
        """Choose the temperature of the least negative log probability."""
        log_p = np.log(np.maximum(probabilities.astype(np.float64), SMALLEST))
        y = labels.astype(np.int64)

        def loss(log_temperature: float) -> float:
            scaled = log_p / math.exp(log_temperature)
            return float((_log_sum_exp(scaled) - scaled[np.arange(len(y)), y]).mean())

        found = minimize_scalar(loss, bounds=(-LOG_RANGE, LOG_RANGE), method="bounded", options={"xatol": 1e-4})
        self.value = math.exp(float(found.x))

    def apply(self, probabilities: Floats) -> Floats:
        """The scaled probabilities."""
        log_p = np.log(np.maximum(probabilities.astype(np.float64), SMALLEST)) / self.value
        return np.exp(log_p - _log_sum_exp(log_p)[:, None])


def deviation_factor(predicted: Gaussian, y: Labels) -> float:
    """What the standard deviations are to be multiplied by for the highest likelihood of some rows."""
    z = (y.astype(np.float64) - predicted.mean) / predicted.std
    return max(float(np.sqrt(np.mean(z**2))), SMALLEST)


def _log_sum_exp(values: Floats) -> Floats:
    top = values.max(1)
    return top + np.log(np.exp(values - top[:, None]).sum(1))
