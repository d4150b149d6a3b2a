"""Fully connected networks."""

from collections.abc import Sequence

from torch import nn

from svdkl.nets.dropout import Dropout
from svdkl.shapes import Float, Tensor

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "tanh": nn.Tanh,
}


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
