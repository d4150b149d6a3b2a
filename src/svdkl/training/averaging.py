"""The running average of a module's weights: what is scored, kept and used; the weights themselves are what is trained.

Single states along the path of a stochastic optimiser lie around a better one; their average is near it long before
small steps would get there.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from svdkl.shapes import Tensor

EARLY = 9  # the average reaches back over one in so many of all steps, until it reaches back as far as it is meant to


class Average:
    """An exponential average of all floating-point parameters and buffers.

    Parameters
    ----------
    decay
        Share of the average that a step leaves; 0 for the weights as they are.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        floating = {name: t for name, t in module.state_dict().items() if t.is_floating_point()}
        # A weight that is shared has several names, and one average: under the first of them.
        places = {name: (t.data_ptr(), t.shape, t.stride()) for name, t in floating.items()}
        first = {place: name for name, place in reversed(places.items())}
        self._first = {name: first[place] for name, place in places.items()}
        self._live = {name: floating[name] for name in dict.fromkeys(self._first.values())}
        self._mean = {name: t.clone() for name, t in self._live.items()}

    @torch.no_grad()
    def update(self) -> None:
        """Take in the module's present weights."""
        self.steps += 1
        decay = min(self.decay, self.steps / (EARLY + self.steps))
        torch._foreach_lerp_(list(self._mean.values()), list(self._live.values()), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The module with the averaged weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def tensors(self) -> list[Tensor]:
        """The averaged weights themselves."""
        return list(self._mean.values())

    def state(self) -> dict[str, Tensor]:
        """The averaged weights by all of their names."""
        return {name: self._mean[first].clone() for name, first in self._first.items()}

    def load(self, state: dict[str, Tensor], steps: int) -> None:
        """Go on from an average of so many steps; names that are not in it keep what they have."""
        for name, t in state.items():
            self._mean[self._first[name]].copy_(t)
        self.steps = steps

    @torch.no_grad()
    def _swap(self) -> None:
        for name, live in self._live.items():
            trained = live.clone()
            live.copy_(self._mean[name])
            self._mean[name].copy_(trained)
