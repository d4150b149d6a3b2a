"""Dropout with cheap random numbers on CPUs: torch's take a seventh of a training step of a network for tables."""

import torch
from torch import nn

from svdkl.shapes import Tensor


class Dropout(nn.Module):
    """In training, each number x becomes 0 with probability ``chance``, else x / (1 - chance).

    Seeds come from torch's own generator, so that ``torch.manual_seed`` makes runs repeatable.
    """

    def __init__(self, chance: float) -> None:
        super().__init__()
        if not 0 <= chance <= 1:
            raise ValueError(f"Expected dropout from 0 to 1, got {chance}.")
        self.chance = chance

    def forward(self, x: Tensor) -> Tensor:
        """Set some numbers to zero in training, and none in evaluation."""
        if not self.training or self.chance == 0:
            return x
        plain = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and self.chance < 1
        if not plain or torch.compiler.is_compiling():
            return nn.functional.dropout(x, self.chance)
        from svdkl.gp.fast.dropout_loops import random_scales

        return x * random_scales(x, self.chance)

    def extra_repr(self) -> str:
        """Describe the parameters for ``print``."""
        return f"chance={self.chance:g}"
