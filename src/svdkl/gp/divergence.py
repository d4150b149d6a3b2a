"""KL(q(u) || p(u)) between two Gaussians with Kronecker structure, in closed form (the paper's appendix).

    KL = 1/2 { log|K| - log|S| - m + tr(K^-1 S) + mu^T K^-1 mu }

The paper prints D where m, the number of inducing points, must stand: only then is the KL zero at q = p.
"""

import math

import torch

from svdkl.gp.linalg.circulant import circulant_column
from svdkl.gp.linalg.kronecker import kron_log_det, kron_trace
from svdkl.gp.posterior import AxisFactor, Posterior
from svdkl.gp.prior import AxisPrior, CirculantAxis, Prior
from svdkl.shapes import Float, Tensor


def kl_divergence(posterior: Posterior, prior: Prior) -> Float[Tensor, "J"]:
    """Return KL(q(u_j) || p(u_j)) of each GP, in float64."""
    axes = posterior.axes
    sizes = [factor.size for factor in axes]
    mean = posterior.mean.double()
    if posterior.whitened:
        traces, log_dets = zip(*(factor.trace_and_log_det() for factor in axes), strict=True)
        # K and S share the root R, so log|K| cancels: this is the KL of q(v) from N(0, I).
        log_det_ratio = -kron_log_det(log_dets, sizes)
        trace = kron_trace(traces)
        quadratic = mean.flatten(1).square().sum(-1)
    else:
        log_det_ratio = prior.log_det() - kron_log_det([factor.log_det() for factor in axes], sizes)
        trace = kron_trace([trace_of_solve(axis, factor) for axis, factor in zip(prior.axes, axes, strict=True)])
        quadratic = prior.whiten(mean).flatten(1).square().sum(-1)
    return 0.5 * (log_det_ratio - math.prod(sizes) + trace + quadratic)


def trace_of_solve(axis: AxisPrior, factor: AxisFactor) -> Float[Tensor, "J"]:
    """Return tr(K_d^-1 S_d) of one axis: ||R^-1 L||^2, or, on a ring, a sum over the diagonals of a banded S."""
    if isinstance(axis, CirculantAxis) and factor.width < factor.size:
        width = factor.width
        inverse = circulant_column(1 / axis.spectrum, axis.size)[:, :width]
        twice = torch.full_like(inverse, 2.0)
        twice[:, 0] = 1.0  # off-diagonal entries stand above and below the main diagonal
        return (twice * inverse * factor.gram(width).sum(-1)).sum(-1)
    return axis.whiten(factor.dense()).square().sum((-2, -1))
