"""Metrics of predictions against real targets, (rows,) or (rows, outputs). A weight of w counts a row w times.

Means are over rows and outputs: score outputs of different units separately. There is one weight for each row.
"""

import math
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import ArrayLike

from svdkl.metrics.inputs import Floats, Weights, aligned_rows, fraction, sampled_rows, weighted_mean


def rmse(mean: ArrayLike, targets: ArrayLike, sample_weight: Weights = None) -> float:
    """Root of the mean squared error, in the targets' unit. Lower is better."""
    mean, targets, weight = aligned_rows(sample_weight, mean=mean, targets=targets)
    return math.sqrt(weighted_mean((targets - mean) ** 2, weight))


def mae(mean: ArrayLike, targets: ArrayLike, sample_weight: Weights = None) -> float:
    """Mean absolute error, in the targets' unit. Lower is better."""
    mean, targets, weight = aligned_rows(sample_weight, mean=mean, targets=targets)
    return weighted_mean(np.abs(targets - mean), weight)


def pinball_loss(
    prediction: ArrayLike, targets: ArrayLike, quantile: float = 0.5, sample_weight: Weights = None
) -> float:
    """Mean of max(q e, (q − 1) e), e = target − prediction, which is least at the q-quantile. Lower is better."""
    q = fraction("quantile", quantile)
    prediction, targets, weight = aligned_rows(sample_weight, prediction=prediction, targets=targets)
    error = targets - prediction
    return weighted_mean(np.maximum(q * error, (q - 1) * error), weight)


def gaussian_nlpd(mean: ArrayLike, std: ArrayLike, targets: ArrayLike, sample_weight: Weights = None) -> float:
    """Mean negative log density of a Gaussian, whose std includes the noise, in nats a target.

    Lower is better; it may be negative.
    """
    mean, std, targets, weight = aligned_rows(sample_weight, mean=mean, std=std, targets=targets)
    z = (targets - mean) / std
    return weighted_mean(0.5 * z**2 + np.log(std) + 0.5 * math.log(2 * math.pi), weight)


def crps_gaussian(mean: ArrayLike, std: ArrayLike, targets: ArrayLike, sample_weight: Weights = None) -> float:
    """Continuous ranked probability score, ∫ (F(t) − [t ≥ y])² dt, of a Gaussian F. Lower is better.

    It has the targets' unit, and tends to the absolute error as the std, which includes the noise, goes to 0.
    """
    mean, std, targets, weight = aligned_rows(sample_weight, mean=mean, std=std, targets=targets)
    z = (targets - mean) / std
    # CRPS = σ [z (2 Φ(z) − 1) + 2 φ(z) − 1/√π]
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return weighted_mean(std * (z * _erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi)), weight)


def crps_ensemble(samples: ArrayLike, targets: ArrayLike, sample_weight: Weights = None) -> float:
    """Continuous ranked probability score from T samples of each target: (T, rows) or (T, rows, outputs).

    This is the fair form, Σ_t |x_t − y| / T − Σ_{s<t} |x_s − x_t| / (T (T − 1)), whose expectation is the score of the
    samples' distribution, whatever T. (With T² for T (T − 1) it would be too large.) It may be negative by chance.
    Lower is better.
    """
    samples, targets, weight = sampled_rows(samples, targets, sample_weight)
    num_samples = len(samples)
    # We subtract the target first, so that a large offset costs no digits.
    samples = np.sort(samples - targets, 0)
    # Σ_{s<t} |x_s − x_t| = Σ_t (2 t − T − 1) x_(t)
    order = 2 * np.arange(1, num_samples + 1) - num_samples - 1
    distance = np.tensordot(order, samples, 1) / (num_samples * (num_samples - 1))
    return weighted_mean(np.abs(samples).mean(0) - distance, weight)


def interval_coverage(
    mean: ArrayLike, std: ArrayLike, targets: ArrayLike, probability: float = 0.95, sample_weight: Weights = None
) -> float:
    """Share of targets within the central interval that holds ``probability`` of a Gaussian; best where equal.

    The std includes the noise.
    """
    half_width = -NormalDist().inv_cdf((1 - fraction("probability", probability)) / 2)
    mean, std, targets, weight = aligned_rows(sample_weight, mean=mean, std=std, targets=targets)
    return weighted_mean(np.abs(targets - mean) <= half_width * std, weight)


def bounds_coverage(lower: ArrayLike, upper: ArrayLike, targets: ArrayLike, sample_weight: Weights = None) -> float:
    """Share of targets with lower ≤ target ≤ upper; best where it equals the probability meant by the bounds.

    Bounds may be infinite.
    """
    lower, upper, targets, weight = aligned_rows(sample_weight, lower=lower, upper=upper, targets=targets)
    return weighted_mean((lower <= targets) & (targets <= upper), weight)


def _erf(x: Floats) -> Floats:
    """Compute the error function, which numpy lacks."""
    return torch.special.erf(torch.from_numpy(x)).numpy()
