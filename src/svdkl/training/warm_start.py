"""Stage 2 of the recipe: a head starts equal to the linear layer of a trained network.

f_j starts as the feature that the layer read, so A and b are the layer's own and go on as the layer would have. q(u)
starts as the posterior after some noisy rows that lie where the sample does: narrow there, and the prior elsewhere.
"""

import math
import warnings

import torch

from svdkl.gp.bounding import Bounding, expand
from svdkl.gp.groups import Bank
from svdkl.gp.head import GPHead
from svdkl.gp.interpolation import interpolation_weights
from svdkl.gp.kernels import LengthscaleKernel, Periodic
from svdkl.gp.lattice_gps import LatticeGPs
from svdkl.gp.posterior import CholeskyFactor
from svdkl.likelihoods import Softmax
from svdkl.shapes import Float, Tensor
from svdkl.training.config import WarmStartConfig

# The rows seen have at most so many times the prior's information: with more, rounding would lose the prior.
MOST_INFORMATION = 1e10
DENSITY_ROWS = 2_048  # rows of the sample that show where rows lie: a density on an axis needs no more
# The start may be off by this, relative to the prior's deviation. No prediction shows it, while the exact function
# would be an unlikely one under a smooth prior: it costs tens of nats a GP.
TOLERANCE = 2e-4


@torch.no_grad()
def start_from_linear(
    head: GPHead,
    features: Float[Tensor, "B Q"],
    weight: Float[Tensor, "C Q"],
    bias: Float[Tensor, "C"] | None,
    config: WarmStartConfig = WarmStartConfig(),  # noqa: B008 - frozen
) -> None:
    """Make the head's outputs equal to ``weight @ h + bias``, and set the features' ranges from a sample of rows.

    The outputs are equal where each GP has one feature, and for two classes. Otherwise one function a GP serves all
    outputs: each group keeps the best such function (rank one), and a warning says how much is lost.
    """
    if weight.shape != (head.num_outputs, head.num_features):
        raise ValueError(
            f"Expected the weights of a linear layer of shape ({head.num_outputs}, {head.num_features}), got "
            f"{tuple(weight.shape)}."
        )
    head.gps.bounding.set_ranges(features)
    set_lengthscales(head, features, config)

    weight = weight.double()
    # Two classes or more: adding a vector to all rows of the weights leaves the softmax as it is.
    shift = weight.mean(0) if isinstance(head.likelihood, Softmax) and max(map(len, head.gps.groups)) > 1 else 0.0
    wanted = weight - shift

    mixing = torch.zeros(head.num_outputs, head.gps.num_gps, dtype=torch.float64, device=weight.device)
    directions: list[Tensor] = []
    for j, group in enumerate(head.gps.groups):
        mixing[:, j], direction = _rank_one(wanted[:, list(group)])
        directions.append(direction)
    _warn_of_loss(head, wanted, mixing, directions)
    head.mixing.weight.copy_(mixing)
    head.mixing.bias.copy_(bias if bias is not None else torch.zeros_like(head.mixing.bias))

    spread = features.double().std(0, correction=0)
    spread = torch.where(spread > 0, spread, torch.ones_like(spread))
    for bank in head.gps.members():
        members = [j for j, group in enumerate(head.gps.groups) if len(group) == bank.gps.grid.num_dims]
        of_each = torch.stack([directions[j] for j in members])
        _set_linear_functions(bank, head.gps.bounding, of_each)
        z = head.gps.bounding(features[:DENSITY_ROWS].to(head.gps.bounding.scale.dtype))
        _set_covariance(bank.gps, bank.positions(z), (of_each * spread[bank.features]).norm(dim=1), config)


def _rank_one(block: Float[Tensor, "C D"]) -> tuple[Float[Tensor, "C"], Float[Tensor, "D"]]:
    """The outer product nearest to a block of weights; the block itself if it has one column."""
    if block.shape[1] == 1:
        return block[:, 0], torch.ones_like(block[0])
    left, value, right = torch.linalg.svd(block, full_matrices=False)
    return left[:, 0] * value[0], right[0]


def _warn_of_loss(head: GPHead, wanted: Tensor, mixing: Tensor, directions: list[Tensor]) -> None:
    kept = torch.zeros_like(wanted)
    for j, group in enumerate(head.gps.groups):
        kept[:, list(group)] += mixing[:, j, None] * directions[j]
    loss = float((wanted - kept).norm() / wanted.norm().clamp_min(1e-300))
    if loss > 1e-6:
        warnings.warn(
            f"One function for each group of features keeps {1 - loss:.0%} of the linear layer's weights, so the model "
            f"does not start equal to the network: use dims_per_gp=1 for that.",
            stacklevel=3,
        )


def _set_linear_functions(bank: Bank, bounding: Bounding, directions: Float[Tensor, "J D"]) -> None:
    """u_j = sum_d direction_jd * (the feature that a point of the lattice stands for)."""
    gps = bank.gps
    location, scale = bounding.location.double()[bank.features], bounding.scale.double()[bank.features]
    sizes = gps.grid.sizes
    u = torch.zeros_like(gps.posterior.mean, dtype=torch.float64)
    for d, size in enumerate(sizes):
        low, high = gps.grid.interior(d)
        position = torch.arange(size, dtype=torch.float64, device=u.device)
        z = (position - (low + high) / 2) / ((high - low) / 2)
        reach = expand(z)
        if gps.forms[d] == "circulant":
            reach = _close_ring(reach, position, low, high)
        axis = directions[:, d, None] * (location[:, d, None] + scale[:, d, None] * reach)
        u += axis.reshape(-1, *(size if k == d else 1 for k in range(len(sizes))))
    variance = u.flatten(1).square().mean(1).clamp_min(1e-12)
    gps.kernel.log_variance.copy_(variance.log())
    gps.set_mean(u, TOLERANCE)


def _set_covariance(
    gps: LatticeGPs, positions: Float[Tensor, "B J D"], noise: Float[Tensor, "J"], config: WarmStartConfig
) -> None:
    """Set S = (K⁻¹ + n Mᵀ M / (B noise²))⁻¹, the posterior after n noisy rows that lie where the B given rows do.

    For u = R v it is S_v = (I + n (M R)ᵀ (M R) / (B noise²))⁻¹. For D > 1 each axis is set by itself.
    """
    posterior, prior = gps.posterior, gps.prior()
    deviation = gps.kernel.log_variance.exp().sqrt()
    if not all(isinstance(factor, CholeskyFactor) for factor in posterior.axes):
        posterior.set_scale(config.narrow * noise / (deviation if posterior.whitened else 1.0))
        return
    num_rows, num_gps, num_dims = positions.shape
    for d, (axis, factor) in enumerate(zip(prior.axes, posterior.axes, strict=True)):
        m = axis.size
        rows = interpolation_weights(positions[..., d].double(), m)  # (B, J, m)
        gram = torch.stack([rows[:, j].mT @ rows[:, j] for j in range(num_gps)])
        root = axis.colour(torch.eye(m, dtype=gram.dtype, device=gram.device).expand(num_gps, m, m))
        information = root.mT @ gram @ root
        scale = (config.rows_seen / noise.square()) ** (1 / num_dims) / num_rows
        # A feature that hardly varies has next to no noise, and would leave the identity behind in rounding.
        largest = information.diagonal(dim1=-2, dim2=-1).amax(-1)
        precision = torch.minimum(scale, MOST_INFORMATION / largest)[:, None, None] * information
        precision.diagonal(dim1=-2, dim2=-1).add_(1.0)
        # The inverse of P = C Cᵀ is C⁻ᵀ C⁻¹; a lower triangular root of it comes from P with its order reversed.
        reversed_root = torch.linalg.cholesky(precision.flip(-2, -1)).flip(-2, -1)
        lower = torch.linalg.inv(reversed_root).mT
        factor.assign(lower if posterior.whitened else torch.linalg.cholesky(_square(root @ lower)))


def _square(root: Float[Tensor, "J m m"]) -> Float[Tensor, "J m m"]:
    """Return R Rᵀ, with as much on the diagonal as rounding takes, so that it has a Cholesky factor."""
    square = root @ root.mT
    square.diagonal(dim1=-2, dim2=-1).add_(1e-12 * square.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True))
    return square


def _close_ring(reach: Float[Tensor, "m"], position: Float[Tensor, "m"], low: float, high: float) -> Float[Tensor, "m"]:
    """Lead a function smoothly from its upper end through the gap of the ring, where no data lie, to its lower end."""
    size = len(position)
    through = torch.where(position > high, position - high, position + size - high) / (low + size - high)
    # From 1 at the upper end of the data to -1 at the lower; three derivatives vanish at both.
    sign = 1 - 2 * through**4 * (35 - 84 * through + 70 * through**2 - 20 * through**3)
    return torch.where((position > high) | (position < low), reach.abs() * sign, reach)


@torch.no_grad()
def set_lengthscales(head: GPHead, features: Float[Tensor, "B Q"], config: WarmStartConfig) -> None:
    """Start each lengthscale from the spread of its feature in coordinates of the lattice."""
    z = head.gps.bounding(features.to(head.gps.bounding.location.dtype))
    spread = z.std(0, correction=0)
    for bank in head.gps.members():
        for d, axis in enumerate(bank.gps.kernel.axes):
            size = bank.gps.grid.sizes[d]
            longest = config.longest_on_ring if bank.gps.forms[d] == "circulant" else config.longest
            in_axis_units = 2 * spread[bank.features[:, d]] * bank.half_width[d] / (size - 1)
            lengthscale = in_axis_units.clamp(3 / (size - 1), longest)
            if isinstance(axis, LengthscaleKernel):
                axis.log_lengthscale.copy_(lengthscale.log())
            elif isinstance(axis, Periodic):
                # With a period longer than the axis it starts as an RBF of this lengthscale, which any function suits.
                axis.log_period.fill_(math.log(config.long_period))
                axis.log_lengthscale.copy_((2 * math.pi * lengthscale / config.long_period).log())
