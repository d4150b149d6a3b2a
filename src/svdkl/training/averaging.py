"""The running average of a module's weights: the optimiser moves the weights, the average is scored, kept and used.

A stochastic optimiser's states lie around a better state. Their average is near that one long before smaller steps
would get there.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from svdkl.shapes import Tensor


class Average:
    """An exponential average of all floating-point parameters and buffers.

    Parameters
    ----------
    decay
        The average keeps this share of itself in every step; 0 for the weights as they are.
    start
        After n steps the share is n / (n + start) at most, so that the average soon forgets the first weights.
    """

    def __init__(self, module: nn.Module, decay: float, start: int = 9) -> None:
        self.decay, self.start = decay, start
        self.steps = 0
        self._live = {name: t for name, t in module.state_dict().items() if t.is_floating_point()}
        self._mean = {name: t.clone() for name, t in self._live.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Add the module's present weights to the average."""
        self.steps += 1
        decay = min(self.decay, self.steps / (self.start + self.steps))
        torch._foreach_lerp_(list(self._mean.values()), list(self._live.values()), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the module have the averaged weights inside a ``with`` block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def tensors(self) -> list[Tensor]:
        """The averaged weights themselves, not copies."""
        return list(self._mean.values())

    def state(self) -> dict[str, Tensor]:
        """Copies of the averaged weights by name."""
        return {name: mean.clone() for name, mean in self._mean.items()}

    def load(self, state: dict[str, Tensor], steps: int) -> None:
        """Go on from an average of so many steps; names that are not in it keep what they have."""
        for name, t in state.items():
            self._mean[name].copy_(t)
        self.steps = steps

    @torch.no_grad()
    def _swap(self) -> None:
        # All are read before any is written: a weight may have several names.
        trained = {name: live.clone() for name, live in self._live.items()}
        for name, live in self._live.items():
            live.copy_(self._mean[name])
        for name, mean in self._mean.items():
            mean.copy_(trained[name])
