"""Stage 4 of the recipe: the head's posterior is fitted once more, to rows that the network has not been fitted to.

A network overfits its training rows, so a posterior fitted to their features is too sure. Here the function learned so
far becomes the prior's centre, u = centre + amplitude R v. q(v) starts at the prior and is fitted to held-out rows by
their evidence lower bound, together with the kernels, the noise of real targets and, for classes, one temperature. The
network stays as it is, so its features are computed once.
"""

from typing import Any

import torch
from torch import nn

from svdkl.gp.elbo import ELBO
from svdkl.gp.head import GPHead
from svdkl.model import SVDKL
from svdkl.shapes import Float, Tensor
from svdkl.training.batches import Rows, map_rows
from svdkl.training.config import EvidenceConfig, TrainingConfig
from svdkl.training.optimisers import Guard, make_optimiser, rate_factor, set_rates

SMALLEST_VARIANCE = 1e-8  # of standardised targets: single precision tells no smaller residuals apart


class ExpectedNoise:
    """The noise at the end of training, as if ``num_rows`` more rows had shown it.

    Only real targets have a noise; for others nothing is expected.
    """

    def __init__(self, head: GPHead, num_rows: int) -> None:
        self.likelihood, self.num_rows = head.likelihood, num_rows
        self.dtype = head.mixing.weight.dtype
        with torch.no_grad():
            zero = torch.zeros_like(head.mixing.bias).unsqueeze(0)
            self.variance = self.likelihood.predictive_terms(zero)[1][0].double() if self.likelihood.is_real else None

    def penalty(self) -> Tensor | float:
        """Return -log p(noise), up to a constant: the negative log likelihood of those rows."""
        if self.variance is None:
            return 0.0
        residual = self.variance.sqrt().to(self.dtype).unsqueeze(0)
        return -self.num_rows * self.likelihood.log_prob(torch.zeros_like(residual), residual).sum()

    @torch.no_grad()
    def start(self, head: GPHead, rows: Rows, spread: Float[Tensor, "J"]) -> float:
        """Give the likelihood the noise that the rows show, and return the noise as a share of the functions' spread.

        If functions were expected to be off by more, a few held-out rows alone would have to pin them down.
        """
        if self.variance is None:
            return float("inf")
        mean = head.mixing(head.gps.marginals(rows.x).mean)
        weight = (mean.new_ones(len(mean)) if rows.weight is None else rows.weight).double()
        squares = weight @ (self.likelihood.targets(rows.y, len(mean)) - mean).double().square()
        residual = (squares + self.num_rows * self.variance) / (weight.sum() + self.num_rows)
        residual = residual.clamp_min(SMALLEST_VARIANCE)
        self.likelihood.set_noise(residual)
        outputs = head.mixing.weight.double().square() @ spread.square()
        return float((residual / outputs.clamp_min(SMALLEST_VARIANCE)).min().sqrt())


def fit_held_out_evidence(model: SVDKL, held_out: Rows, config: TrainingConfig, generator: torch.Generator) -> None:
    """Fit the head's posterior, kernels, noise and, for classes, a temperature to the held-out rows."""
    head, numbers = model.gp_head, config.evidence_config
    rows = map_rows(held_out, model.net.eval())
    first = rows.take(slice(0, numbers.max_rows))
    spread, noise = _spread(head, first.x), ExpectedNoise(head, numbers.expected_rows)
    share = min(numbers.amplitude, noise.start(head, first, spread))
    gps = [bank.gps for bank in head.gps.members()]
    with torch.no_grad():
        for part in gps:
            members = [j for j, group in enumerate(head.gps.groups) if len(group) == part.grid.num_dims]
            amplitude = share * spread[members]
            part.recentre()
            part.kernel.log_variance.copy_(2 * amplitude.log())
            part.posterior.set_scale(torch.ones_like(amplitude) if part.posterior.whitened else amplitude)
    tempered = _Tempered(head, numbers.factor_spread)
    parameters = [p for part in gps for p in (*part.posterior.parameters(), *part.kernel.parameters())]
    if head.likelihood.is_classifier:
        parameters.append(tempered.log_factor)
    parameters += head.likelihood.parameters()
    optimiser = make_optimiser([{"params": parameters, "rate": numbers.rate}])
    guard, at_most = Guard(tempered, optimiser), rows_of_a_step(head, numbers)
    for step in range(numbers.steps):
        factor = rate_factor(step, numbers.steps, 0) * guard.slowdown
        set_rates(optimiser, factor, factor)
        batch = rows
        if len(rows) > at_most:
            batch = rows.take(torch.randint(len(rows), (at_most,), generator=generator))
        guard.step(
            lambda b=batch: (  # type: ignore[misc]
                (tempered.penalty() + noise.penalty()) / len(rows)
                - tempered(b.x, b.y, len(rows), b.weight, generator).value
            ),
            config.clip,
        )
    with torch.no_grad():
        for parameter in head.mixing.parameters():
            parameter.mul_(tempered.log_factor.exp())


def rows_of_a_step(head: GPHead, config: EvidenceConfig) -> int:
    """How many held-out rows a step takes at most: fewer for many GPs."""
    return min(config.max_rows, max(1, config.max_values // head.gps.num_gps))


@torch.no_grad()
def _spread(head: GPHead, features: Tensor) -> Float[Tensor, "J"]:
    """Standard deviation of each GP's function over the rows; 1 where the function is constant."""
    spread = head.gps.marginals(features).mean.double().std(0, correction=0)
    return torch.where(spread > 0, spread, torch.ones_like(spread))


class _Bound(nn.Module):
    """The head's bound as a module's forward, which is what functional_call can call."""

    def __init__(self, head: GPHead) -> None:
        super().__init__()
        self.head = head

    def forward(self, *arguments: Any) -> ELBO:
        return self.head.elbo(*arguments)


class _Tempered(nn.Module):
    """The head's bound with one learned factor on all outputs."""

    def __init__(self, head: GPHead, factor_spread: float) -> None:
        super().__init__()
        self.bound, self.factor_spread = _Bound(head), factor_spread
        self.log_factor = nn.Parameter(torch.zeros((), dtype=head.mixing.weight.dtype))

    def penalty(self) -> Tensor:
        """Return -log p(log factor) for a normal prior, up to a constant."""
        return 0.5 * (self.log_factor / self.factor_spread).square()

    def forward(self, *arguments: Any) -> ELBO:
        mixing = self.bound.head.mixing.named_parameters(prefix="head.mixing")
        scaled = {name: parameter.detach() * self.log_factor.exp() for name, parameter in mixing}
        return torch.func.functional_call(self.bound, scaled, arguments)
