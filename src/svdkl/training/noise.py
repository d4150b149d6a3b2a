"""The noise of real targets in the held-out evidence: where it starts, and what is expected of it."""

import torch

from svdkl.head import GPHead
from svdkl.shapes import Float, Tensor
from svdkl.training.rows import Rows

EXPECTED_ROWS = 3  # that the noise which training ended with counts for
SMALLEST_VARIANCE = 1e-8  # of standardised targets


class ExpectedNoise:
    """A noise like that which training ended with, as if a few more rows had shown it.

    That held-out rows are few and all of them hit closely is no proof that none is far off; where they are many, three
    more are nothing. Targets that are not real have no noise, and no such expectation.
    """

    def __init__(self, head: GPHead) -> None:
        self.likelihood = head.likelihood
        self.dtype = head.mixing.weight.dtype
        with torch.no_grad():
            zero = torch.zeros_like(head.mixing.bias).unsqueeze(0)
            self.variance = self.likelihood.predictive_terms(zero)[1][0].double() if self.likelihood.is_real else None

    def penalty(self) -> Tensor | float:
        """-log p(noise): of the likelihood of these rows."""
        if self.variance is None:
            return 0.0
        residual = self.variance.sqrt().to(self.dtype).unsqueeze(0)
        return -EXPECTED_ROWS * self.likelihood.log_prob(torch.zeros_like(residual), residual).sum()

    @torch.no_grad()
    def start(self, head: GPHead, rows: Rows, spread: Float[Tensor, "J"]) -> float:
        """Give the likelihood the noise that the rows show; the share of their spread that makes functions as far off
        as that.

        Functions that are expected to be off by more would have to be pinned down by a few held-out rows alone.
        """
        if self.variance is None:
            return float("inf")
        mean = head.mixing(head.marginals(rows.x).mean)
        weight = (mean.new_ones(len(mean)) if rows.weight is None else rows.weight).double()
        squares = weight @ (self.likelihood.targets(rows.y, len(mean)) - mean).double().square()
        residual = (squares + EXPECTED_ROWS * self.variance) / (weight.sum() + EXPECTED_ROWS)
        residual = residual.clamp_min(SMALLEST_VARIANCE)
        self.likelihood.set_noise(residual)
        outputs = head.mixing.weight.double().square() @ spread.square()
        return float((residual / outputs.clamp_min(SMALLEST_VARIANCE)).min().sqrt())
