"""Fully connected networks, and dropout between their layers."""

from collections.abc import Sequence

import torch
from torch import nn

from svdkl.shapes import Float, Tensor

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}


class Dropout(nn.Module):
    """In training, each number x becomes 0 with probability ``chance``, else x / (1 - chance).

    Seeds come from torch's own generator, so that ``torch.manual_seed`` makes runs repeatable. The other random numbers
    are our own on CPUs: torch's take a seventh of a training step of a network for tables.
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


class MLP(nn.Module):
    """Linear layers with activations between them. None follows the last layer: it gives features or logits.

    The paper's network d-1000-1000-500-50-c is ``MLP(d, (1000, 1000, 500), 50)`` with a head of c outputs.

    Parameters
    ----------
    in_features, hidden, out_features
        Widths of the input, of each hidden layer, and of the output.
    activation
        "relu", "gelu", "silu" or "tanh".
    dropout
        Chance of each hidden unit to be zero in training.
    """

    def __init__(
        self,
        in_features: int,
        hidden: Sequence[int],
        out_features: int,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise ValueError(f"Expected an activation out of {', '.join(ACTIVATIONS)}, got {activation!r}.")
        layers: list[nn.Module] = []
        width = in_features
        for size in hidden:
            layers += [nn.Linear(width, size), ACTIVATIONS[activation]()]
            if dropout > 0:
                layers.append(Dropout(dropout))
            width = size
        layers.append(nn.Linear(width, out_features))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Float[Tensor, "B d"]) -> Float[Tensor, "B Q"]:
        """Return features of each row."""
        return self.layers(x)
