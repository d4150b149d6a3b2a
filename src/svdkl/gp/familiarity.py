"""Which combinations of features training has seen.

Each GP of the head sees one feature or a few. It cannot tell that features which are all usual never came together. A
GP on all features at once can: given the features of some training rows, how much of its variance is left at a new row?
Only the direction of a row counts, seen from the origin, where rectified units are off. How far out a row lies is known
to the head's own GPs. Each feature is in units of its root mean square, or of a share of the usual feature's if that is
larger.
"""

import math
from typing import Any

import torch
from torch import nn

from svdkl.shapes import Float, Tensor

MOST_ROWS = 1024  # rows remembered at most: factorising their covariance takes a moment
NO_DIRECTION = 1e-3  # A row with a mean square below this, near the origin, has less and less of a direction.


class Familiarity(nn.Module):
    """A GP on the directions of all features together, conditioned on rows that are remembered.

    Parameters
    ----------
    noise
        Variance of the noise of each remembered row, relative to the prior variance.
    steepness
        Two rows as far apart as half of all pairs that differ have a covariance of exp(-steepness).
    smallest_scale
        Smallest unit of a feature, as a share of the usual feature's: units of a network that are hardly ever on would
        otherwise outweigh all others.

    The form and the steepness were chosen on classes of MNIST and CIFAR-10 that a network had not been shown.

    Attributes
    ----------
    rows
        Features of the remembered rows, at most ``MOST_ROWS``, each (Q,); none at first.
    """

    rows: Tensor

    def __init__(
        self, num_features: int, noise: float = 0.1, steepness: float = 2.0, smallest_scale: float = 0.3
    ) -> None:
        super().__init__()
        self.noise, self.steepness, self.smallest_scale = noise, steepness, smallest_scale
        self.register_buffer("rows", torch.empty(0, num_features))
        self._known: _Known | None = None

    @torch.no_grad()
    def remember(self, h: Float[Tensor, "B Q"], share: float = 1.0) -> None:
        """Remember rows, given in random order, in a share of the memory; the rest keeps rows remembered before.

        Rows remembered before keep the features that the network gave them then.
        """
        new = h.detach()[:MOST_ROWS].to(self.rows)
        if not bool(torch.isfinite(new).all()):
            raise ValueError("Expected finite features to remember, got NaN or infinity: check inputs and weights.")
        kept = round((1 - share) * min(MOST_ROWS, len(self.rows) + len(new)))
        old = self.rows[:kept]
        self.rows = torch.cat([old, new[: MOST_ROWS - len(old)]])
        # In random order again, so that the next to come replace some of both.
        order = torch.randperm(len(self.rows), generator=torch.Generator().manual_seed(len(old)))
        self.rows = self.rows[order.to(self.rows.device)]
        self._known = None

    @torch.no_grad()
    def strangeness(self, h: Float[Tensor, "B Q"]) -> Float[Tensor, "B"]:
        """Share of the prior variance that the remembered rows leave at each row; 0 where fewer than two can tell."""
        if len(self.rows) < 2:
            return h.new_zeros(len(h))
        return self._known_now().variance(h).to(h.dtype)

    @torch.no_grad()
    def usual(self) -> Float[Tensor, "B"]:
        """Strangeness of each remembered row given all others; new rows like those of training have such values."""
        if len(self.rows) < 2:
            return self.rows.new_zeros(len(self.rows))
        return self._known_now().variance_without_itself().to(self.rows.dtype)

    def _known_now(self) -> "_Known":
        if self._known is not None and self._known.directions.device == self.rows.device:
            return self._known
        known = _Known(self.rows, self.noise, self.steepness, self.smallest_scale)
        if not torch.compiler.is_compiling():  # nothing of a trace may stay here
            self._known = known
        return known

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": None}  # megabytes that follow from the rows

    def _apply(self, *arguments: Any, **options: Any) -> "Familiarity":
        self._known = None
        return super()._apply(*arguments, **options)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        # A trained model remembers rows, a new one does not yet, so their sizes differ.
        rows = state_dict.setdefault(f"{prefix}rows", self.rows)
        if rows.dim() == 2 and rows.shape[1] == self.rows.shape[1] and len(rows) != len(self.rows):
            self.rows = self.rows.new_empty(rows.shape)
        self._known = None
        super()._load_from_state_dict(state_dict, prefix, *others)


class _Known:
    """Everything that follows from the remembered rows, computed once."""

    def __init__(self, rows: Tensor, noise: float, steepness: float, smallest_scale: float) -> None:
        self.noise, rows = noise, rows.double()
        size = rows.square().mean(0).sqrt()
        usual = torch.where(size > 0, size, math.nan).nanmedian().nan_to_num(1.0)  # 1 if no feature was ever on
        self.factor = 1 / size.clamp_min(smallest_scale * usual)
        self.directions = self._direction(rows)
        distances = self._distances(self.directions)
        typical = torch.where(distances > 1e-12, distances, math.nan).nanmedian()
        self.rate = torch.where(typical.isnan(), 1.0, steepness / typical)
        covariance = torch.exp(-self.rate * distances) + noise * torch.eye(len(rows)).to(rows)
        self.root = torch.linalg.cholesky(covariance)

    def variance(self, h: Tensor) -> Tensor:
        """Posterior variance of a GP with prior variance 1."""
        covariance = torch.exp(-self.rate * self._distances(self._direction(h.double())))
        explained = torch.linalg.solve_triangular(self.root, covariance.mT, upper=False).square().sum(0)
        return (1 - explained).clamp(0, 1)

    def variance_without_itself(self) -> Tensor:
        """Posterior variance at each remembered row, given all others."""
        return (1 / torch.cholesky_inverse(self.root).diagonal() - self.noise).clamp(0, 1)

    def _direction(self, h: Tensor) -> Tensor:
        """Scale rows to a mean square of 1, except rows near the origin."""
        h = h * self.factor
        return h / (h.square().mean(1, keepdim=True) + NO_DIRECTION).sqrt()

    def _distances(self, directions: Tensor) -> Tensor:
        """Mean squared distances over the features, to all remembered rows."""
        sizes = directions.square().mean(1)[:, None] + self.directions.square().mean(1)
        return (sizes - 2 / directions.shape[1] * directions @ self.directions.mT).clamp_min(0)
