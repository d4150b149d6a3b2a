"""Dropout whose random numbers cost little on CPUs: torch's own take a seventh of a step of a network for tables."""

import torch
from torch import nn

from svdkl.shapes import Tensor


class Dropout(nn.Module):
    """Each number is zero with a chance, and divided by the chance of the other case otherwise; as it is in evaluation.

    Seeds come from torch's own generator, so ``torch.manual_seed`` decides which.
    """

    def __init__(self, chance: float) -> None:
        super().__init__()
        if not 0 <= chance <= 1:
            raise ValueError(f"Expected dropout from 0 to 1, got {chance}.")
        self.chance = chance

    def forward(self, x: Tensor) -> Tensor:
        """Numbers with some of them zero."""
        if not self.training or self.chance == 0:
            return x
        plain = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and self.chance < 1
        if not plain or torch.compiler.is_compiling():
            return nn.functional.dropout(x, self.chance)
        from svdkl.gp.fast.dropout_loops import random_scales

        return x * random_scales(x, self.chance)

    def extra_repr(self) -> str:
        """What the module is printed with."""
        return f"chance={self.chance:g}"
