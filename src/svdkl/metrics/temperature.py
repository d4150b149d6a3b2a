"""A temperature: one number that makes class probabilities as sure as held-out rows show that they may be."""

import math

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from svdkl.metrics.inputs import Floats

LOG_RANGE = math.log(20.0)  # networks' temperatures are near 1: a search from 1/20 to 20 is wide enough
# The deviation of log T under the prior, wider than networks need: by thousands of rows their temperatures are 0.87 to
# 1.19. Without a prior, some dozens of rows that are all predicted right would ask for a temperature of zero.
PRIOR_DEVIATION = 0.5
SMALLEST = 1e-30  # probabilities in single precision may be exactly 0, which has no logarithm


class Temperature:
    """The number T, ``value``, that turns probabilities p into p^(1/T), normalised (Guo et al., 2017).

    It never changes which class is most probable: above 1 it makes a model less sure, below 1 surer.
    """

    def __init__(self) -> None:
        self.value = 1.0

    def fit(self, probabilities: npt.ArrayLike, labels: npt.ArrayLike) -> None:
        """Choose the likeliest T by rows that training has not seen: class probabilities (rows, C), labels from 0.

        Under the normal prior on log T, the mean negative log probability of N rows is at most 2 (log T)² / N above the
        least one, where T is the likeliest temperature: with thousands of rows the prior changes no third digit.
        """
        log_p, y = _log(probabilities), np.asarray(labels).astype(np.int64)

        def loss(log_temperature: float) -> float:
            scaled = log_p / math.exp(log_temperature)
            likelihood = float((scaled[np.arange(len(y)), y] - _log_sum_exp(scaled)).sum())
            return 0.5 * (log_temperature / PRIOR_DEVIATION) ** 2 - likelihood

        found = minimize_scalar(loss, bounds=(-LOG_RANGE, LOG_RANGE), method="bounded", options={"xatol": 1e-4})
        self.value = math.exp(float(found.x))

    def apply(self, probabilities: npt.ArrayLike) -> Floats:
        """Scale probabilities (rows, C) by the temperature."""
        scaled = _log(probabilities) / self.value
        return np.exp(scaled - _log_sum_exp(scaled)[:, None])


def _log(probabilities: npt.ArrayLike) -> Floats:
    return np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), SMALLEST))


def _log_sum_exp(values: Floats) -> Floats:
    top = values.max(1)
    return top + np.log(np.exp(values - top[:, None]).sum(1))
