"""Metrics of predictions against real targets, (rows,) or (rows, outputs). A weight of w counts a row w times.

Means are over rows and outputs: with outputs of different units, score each on its own.
"""

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import torch

from svdkl.metrics.inputs import Floats, aligned_rows, fraction, sampled_rows, weighted_mean


def rmse(mean: npt.ArrayLike, targets: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
    """Root of the mean squared error, in the targets' unit. Lower is better."""
    mean, targets, weight = aligned_rows(sample_weight, mean=mean, targets=targets)
    return math.sqrt(weighted_mean((targets - mean) ** 2, weight))


def mae(mean: npt.ArrayLike, targets: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
    """Mean absolute error, in the targets' unit. Lower is better."""
    mean, targets, weight = aligned_rows(sample_weight, mean=mean, targets=targets)
    return weighted_mean(np.abs(targets - mean), weight)


def pinball_loss(
    prediction: npt.ArrayLike,
    targets: npt.ArrayLike,
    quantile: float = 0.5,
    sample_weight: npt.ArrayLike | None = None,
) -> float:
    """Mean of max(q e, (q − 1) e), e = target − prediction: least at the q-quantile. Lower is better."""
    q = fraction("quantile", quantile)
    prediction, targets, weight = aligned_rows(sample_weight, prediction=prediction, targets=targets)
    error = targets - prediction
    return weighted_mean(np.maximum(q * error, (q - 1) * error), weight)


def gaussian_nlpd(
    mean: npt.ArrayLike, std: npt.ArrayLike, targets: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
) -> float:
    """Mean negative log density of a Gaussian, in nats a target. Lower is better; it may be negative."""
    mean, std, targets, weight = aligned_rows(sample_weight, mean=mean, std=std, targets=targets)
    z = (targets - mean) / std
    return weighted_mean(0.5 * z**2 + np.log(std) + 0.5 * math.log(2 * math.pi), weight)


def crps_gaussian(
    mean: npt.ArrayLike, std: npt.ArrayLike, targets: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
) -> float:
    """Continuous ranked probability score, ∫ (F(t) − [t ≥ y])² dt, of a Gaussian F. Lower is better.

    In the targets' unit; for a std that goes to 0 it becomes the absolute error.
    """
    mean, std, targets, weight = aligned_rows(sample_weight, mean=mean, std=std, targets=targets)
    z = (targets - mean) / std
    # CRPS = σ [z (2 Φ(z) − 1) + 2 φ(z) − 1/√π]
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return weighted_mean(std * (z * _erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi)), weight)


def crps_ensemble(samples: npt.ArrayLike, targets: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
    """Continuous ranked probability score from T samples of each target: (T, rows) or (T, rows, outputs).

    The fair form, Σ_t |x_t − y| / T − Σ_{s<t} |x_s − x_t| / (T (T − 1)): its expectation over samples is the score of
    the distribution they come from, whatever T. (With T² for T (T − 1) it would be the score of the sample itself, and
    too large.) It may be negative by chance. Lower is better.
    """
    samples, targets, weight = sampled_rows(samples, targets, sample_weight)
    num_samples = len(samples)
    # Relative to the target, so that a large offset costs no digits.
    samples = np.sort(samples - targets, 0)
    # Σ_{s<t} |x_s − x_t| = Σ_t (2 t − T − 1) x_(t)
    order = 2 * np.arange(1, num_samples + 1) - num_samples - 1
    distance = np.tensordot(order, samples, 1) / (num_samples * (num_samples - 1))
    return weighted_mean(np.abs(samples).mean(0) - distance, weight)


def interval_coverage(
    mean: npt.ArrayLike,
    std: npt.ArrayLike,
    targets: npt.ArrayLike,
    probability: float = 0.95,
    sample_weight: npt.ArrayLike | None = None,
) -> float:
    """Share of targets within the central interval that holds ``probability`` of a Gaussian; best where equal to it."""
    half_width = -NormalDist().inv_cdf((1 - fraction("probability", probability)) / 2)
    mean, std, targets, weight = aligned_rows(sample_weight, mean=mean, std=std, targets=targets)
    return weighted_mean(np.abs(targets - mean) <= half_width * std, weight)


def bounds_coverage(
    lower: npt.ArrayLike, upper: npt.ArrayLike, targets: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
) -> float:
    """Share of targets with lower ≤ target ≤ upper; best where it is the probability that the bounds were made for."""
    lower, upper, targets, weight = aligned_rows(sample_weight, lower=lower, upper=upper, targets=targets)
    return weighted_mean((lower <= targets) & (targets <= upper), weight)


def _erf(x: Floats) -> Floats:
    """The error function, which numpy lacks."""
    return torch.special.erf(torch.from_numpy(x)).numpy()
