"""Metrics of predictions against real targets, (rows,) or (rows, outputs). A weight of w counts a row w times.

Means are over rows and outputs: score outputs of different units separately.
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
    """Mean of max(q e, (q − 1) e), e = target − prediction, which is least at the q-quantile. Lower is better.

    Parameters
    ----------
    prediction, targets, sample_weight
        Arrays (rows,) or (rows, outputs), and one weight for each row.
    quantile
        q, between 0 and 1.
    """
    q = fraction("quantile", quantile)
    prediction, targets, weight = aligned_rows(sample_weight, prediction=prediction, targets=targets)
    error = targets - prediction
    return weighted_mean(np.maximum(q * error, (q - 1) * error), weight)


def gaussian_nlpd(
    mean: npt.ArrayLike, std: npt.ArrayLike, targets: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
) -> float:
    """Mean negative log density of a Gaussian, in nats a target. Lower is better; it may be negative.

    Parameters
    ----------
    mean, std, targets, sample_weight
        Arrays (rows,) or (rows, outputs), the std with the noise included; and one weight for each row.
    """
    mean, std, targets, weight = aligned_rows(sample_weight, mean=mean, std=std, targets=targets)
    z = (targets - mean) / std
    return weighted_mean(0.5 * z**2 + np.log(std) + 0.5 * math.log(2 * math.pi), weight)


def crps_gaussian(
    mean: npt.ArrayLike, std: npt.ArrayLike, targets: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
) -> float:
    """Continuous ranked probability score, ∫ (F(t) − [t ≥ y])² dt, of a Gaussian F. Lower is better.

    It has the targets' unit, and tends to the absolute error as the std goes to 0.

    Parameters
    ----------
    mean, std, targets, sample_weight
        Arrays (rows,) or (rows, outputs), the std with the noise included; and one weight for each row.
    """
    mean, std, targets, weight = aligned_rows(sample_weight, mean=mean, std=std, targets=targets)
    z = (targets - mean) / std
    # CRPS = σ [z (2 Φ(z) − 1) + 2 φ(z) − 1/√π]
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return weighted_mean(std * (z * _erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi)), weight)


def crps_ensemble(samples: npt.ArrayLike, targets: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> float:
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
    mean: npt.ArrayLike,
    std: npt.ArrayLike,
    targets: npt.ArrayLike,
    probability: float = 0.95,
    sample_weight: npt.ArrayLike | None = None,
) -> float:
    """Share of targets within the central interval that holds ``probability`` of a Gaussian; best where equal.

    Parameters
    ----------
    mean, std, targets, sample_weight
        Arrays (rows,) or (rows, outputs), the std with the noise included; and one weight for each row.
    probability
        How much of the Gaussian the interval holds, between 0 and 1.
    """
    half_width = -NormalDist().inv_cdf((1 - fraction("probability", probability)) / 2)
    mean, std, targets, weight = aligned_rows(sample_weight, mean=mean, std=std, targets=targets)
    return weighted_mean(np.abs(targets - mean) <= half_width * std, weight)


def bounds_coverage(
    lower: npt.ArrayLike, upper: npt.ArrayLike, targets: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
) -> float:
    """Share of targets with lower ≤ target ≤ upper; best where it equals the probability meant by the bounds.

    Parameters
    ----------
    lower, upper, targets, sample_weight
        Arrays (rows,) or (rows, outputs); bounds may be infinite; and one weight for each row.
    """
    lower, upper, targets, weight = aligned_rows(sample_weight, lower=lower, upper=upper, targets=targets)
    return weighted_mean((lower <= targets) & (targets <= upper), weight)


def _erf(x: Floats) -> Floats:
    """Compute the error function, which numpy lacks."""
    return torch.special.erf(torch.from_numpy(x)).numpy()
