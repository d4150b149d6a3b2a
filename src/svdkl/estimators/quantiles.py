"""Predictive distributions of real targets and counts: their quantiles, and draws from them.

The latent of each target of a row is Gaussian, and the target given the latent is Gaussian, Student-t, Poisson or
negative binomial. Gaussian quantiles have a closed form. For the others F(y) = E F(y | latent) is summed over the
latent by the trapezium rule, whose error vanishes faster than any power of the step as the Gaussian dies off at both
ends, and inverted: by Newton's steps within brackets, or for counts by bisection.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special, stats

from svdkl.likelihoods import Gaussian, Likelihood, NegativeBinomial, Poisson, StudentT
from svdkl.shapes import Tensor

Reals = npt.NDArray[np.float64]

REACH = 6.0  # standard deviations of the latent that the sum goes through: beyond them lie 2e-9 of it
STEPS = (0.05, 0.1, 0.2, 0.4)  # of the sum, in standard deviations: each target takes the largest that resolves it
RESOLUTION = 4  # steps within the width of the target's distribution given the latent: fewer would show
MOST_NEWTON_STEPS = 100  # a bound that bisection alone would need half of
TOLERANCE = 1e-10  # of a quantile, relative to the scale of the noise
LARGEST_COUNT = 2.0**53  # larger whole numbers are not exact in float64
CELLS = 2**22  # values held at a time: 32 MB


def read_levels(levels: object) -> Reals:
    """Read one or several levels of quantiles."""
    try:
        wanted = np.asarray(levels, np.float64)
    except (TypeError, ValueError):
        wanted = np.empty(0)
    if wanted.ndim > 1 or not wanted.size or not ((wanted > 0) & (wanted < 1)).all():
        raise ValueError(f"Expected levels between 0 and 1, such as (0.05, 0.95), got {levels!r}.")
    return wanted


def quantiles(likelihood: Likelihood, mean: Reals, variance: Reals, levels: Reals) -> Reals:
    """Return quantiles (B, C, K) of targets whose latents have these means and variances (B, C)."""
    if isinstance(likelihood, Gaussian):
        total = np.sqrt(variance + np.exp(2 * _array(likelihood.log_noise)))
        return mean[..., None] + total[..., None] * special.ndtri(levels)
    target = np.broadcast_to(np.arange(mean.shape[1]), mean.shape).ravel()
    centre, spread = mean.ravel(), np.sqrt(variance.ravel())
    with np.errstate(divide="ignore"):
        fine = _width(likelihood, centre, target) / spread / RESOLUTION
    choice = np.searchsorted(STEPS, fine).clip(1) - 1
    result = np.empty((len(centre), len(levels)))
    invert = _real_quantiles if isinstance(likelihood, StudentT) else _count_quantiles
    for place, step in enumerate(STEPS):
        z = np.arange(-REACH, REACH + step / 2, step)
        weights = np.exp(-(z**2) / 2)
        chosen = np.flatnonzero(choice == place)
        for part in np.array_split(chosen, 1 + len(chosen) * len(levels) * len(z) // CELLS):
            nodes = (centre[part, None] + spread[part, None] * z)[:, None]
            result[part] = invert(likelihood, target[part], nodes, weights / weights.sum(), levels)
    return result.reshape(*mean.shape, len(levels))


def draw(likelihood: Likelihood, latent: Reals, random: np.random.RandomState) -> Reals:
    """Draw one target for each latent (B, C, T)."""
    if isinstance(likelihood, Gaussian):
        return latent + np.exp(_array(likelihood.log_noise))[:, None] * random.standard_normal(latent.shape)
    if isinstance(likelihood, StudentT):
        degrees, scale = _array(likelihood.degrees)[:, None], np.exp(_array(likelihood.log_scale))[:, None]
        return latent + scale * random.standard_t(np.broadcast_to(degrees, latent.shape))
    rate = np.exp(latent)
    if isinstance(likelihood, NegativeBinomial):
        shape = np.broadcast_to(np.exp(_array(likelihood.log_total_count))[:, None], latent.shape)
        rate = rate * random.gamma(shape) / shape
    return random.poisson(np.minimum(rate, LARGEST_COUNT)).astype(np.float64)


def _width(likelihood: Likelihood, latent: Reals, target: npt.NDArray[np.int64]) -> Reals:
    """Return how far a latent has to move to shift the target by a standard deviation."""
    if isinstance(likelihood, StudentT):
        return np.exp(_array(likelihood.log_scale))[target]
    excess = np.exp(-_array(likelihood.log_total_count))[target] if isinstance(likelihood, NegativeBinomial) else 0.0
    return np.sqrt(np.exp(-latent) + excess)


def _real_quantiles(
    likelihood: Any, target: npt.NDArray[np.int64], nodes: Reals, weights: Reals, levels: Reals
) -> Reals:
    degrees = _array(likelihood.degrees)[target, None, None]
    scale = np.exp(_array(likelihood.log_scale))[target, None, None]
    # A mixture's quantile lies between those of its outermost parts.
    own = (scale * special.stdtrit(degrees, levels[:, None]))[..., 0]
    low, high = nodes[..., 0] + own, nodes[..., -1] + own
    y, active = (low + high) / 2, np.ones_like(low, np.bool_)
    for _ in range(MOST_NEWTON_STEPS):
        t = (y[..., None] - nodes) / scale
        below = (special.stdtr(degrees, t) * weights).sum(-1)
        density = (stats.t.pdf(t, degrees) * weights).sum(-1) / scale[..., 0]
        low, high = np.where(below < levels, y, low), np.where(below < levels, high, y)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = y - (below - levels) / density
        better = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
        moved = np.abs(better - y) > TOLERANCE * scale[..., 0]
        y, active = np.where(active, better, y), active & moved  # a row that is there stays there, whatever others do
        if not active.any():
            break
    return y


def _count_quantiles(
    likelihood: Any, target: npt.NDArray[np.int64], nodes: Reals, weights: Reals, levels: Reals
) -> Reals:
    """Return the smallest count that the target exceeds with a probability of at most 1 - level."""
    below = _count_distribution(likelihood, target, np.exp(nodes))
    low = np.full((len(nodes), len(levels)), -1.0)
    high = np.zeros_like(low)
    while bool((short := ((below(high) * weights).sum(-1) < levels) & (high < LARGEST_COUNT)).any()):
        high = np.where(short, 2 * high + 1, high)
    while bool((high - low > 1).any()):
        middle = np.floor((low + high) / 2)
        short = (below(middle) * weights).sum(-1) < levels
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return high


def _count_distribution(likelihood: Any, target: npt.NDArray[np.int64], rate: Reals) -> Callable[[Reals], Reals]:
    """Return a function that gives P(y <= count | latent)."""
    if isinstance(likelihood, Poisson):
        return lambda count: special.gammaincc(count[..., None] + 1, rate)
    r = np.exp(_array(likelihood.log_total_count))[target, None, None]
    return lambda count: special.betainc(r, count[..., None] + 1, r / (r + rate))


def _array(parameter: Tensor) -> Reals:
    return parameter.detach().cpu().double().numpy()
