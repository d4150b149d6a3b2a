"""A network for rows of a table, which are numbers, flags and category codes side by side in one matrix."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import nn

from svdkl.nets.mlp import ACTIVATIONS, MLP, Dropout
from svdkl.shapes import Float, Tensor
from svdkl.tables.layout import Codes, Flag, Layout, Number

MAX_EMBEDDING = 64  # the longest embedding that "auto" chooses: larger ones cost memory and fit rare categories' noise
NUM_FREQUENCIES = 16  # for each number in the periodic encoding: more resolve finer jumps and widen the first layer
FREQUENCY_SPREAD = 1.0  # their deviation at the start, in turns a unit: a number is scaled to a few units


class _Piecewise(nn.Module):
    """Encode each number by its position in each of its bins, from 0 before the bin to 1 past it.

    So Σ_p w_p · clamp((x − left_p) / width_p, 0, 1) is any continuous function with kinks at the edges.
    """

    number: Tensor
    left: Tensor
    width: Tensor

    def __init__(self, numbers: Sequence[Number]) -> None:
        super().__init__()
        bins = [(i, low, high) for i, of_one in enumerate(numbers) for low, high in pairwise(of_one.edges)]
        number, left, right = zip(*bins) if bins else ((), (), ())
        # Buffers are no part of the state: the layout, which is saved beside it, determines them.
        self.register_buffer("number", torch.tensor(number, dtype=torch.long), persistent=False)
        self.register_buffer("left", torch.tensor(left), persistent=False)
        self.register_buffer("width", torch.tensor(right) - torch.tensor(left), persistent=False)
        self.num_features = len(bins)

    def forward(self, numbers: Float[Tensor, "B n"]) -> Float[Tensor, "B P"]:
        return ((numbers.index_select(1, self.number) - self.left) / self.width).clamp(0, 1)


class _Periodic(nn.Module):
    """Encode each number with bins, and so more than two values, by sines and cosines of learned frequencies."""

    number: Tensor

    def __init__(self, numbers: Sequence[Number]) -> None:
        super().__init__()
        number = [i for i, of_one in enumerate(numbers) if of_one.edges]
        self.register_buffer("number", torch.tensor(number, dtype=torch.long), persistent=False)
        self.frequency = nn.Parameter(FREQUENCY_SPREAD * torch.randn(len(number), NUM_FREQUENCIES))
        self.num_features = 2 * self.frequency.numel()

    def forward(self, numbers: Float[Tensor, "B n"]) -> Float[Tensor, "B P"]:
        turns = (numbers.index_select(1, self.number)[:, :, None] * self.frequency).flatten(1)
        return torch.cat([(2 * math.pi * turns).sin(), (2 * math.pi * turns).cos()], 1)


class _Levels(nn.Module):
    """Encode which of its frequent values each number equals: bins are too wide to tell 40 hours a week from 39."""

    number: Tensor
    level: Tensor

    def __init__(self, numbers: Sequence[Number]) -> None:
        super().__init__()
        levels = [(i, level) for i, of_one in enumerate(numbers) for level in of_one.levels]
        number, level = zip(*levels) if levels else ((), ())
        self.register_buffer("number", torch.tensor(number, dtype=torch.long), persistent=False)
        self.register_buffer("level", torch.tensor(level), persistent=False)
        self.num_features = len(levels)

    def forward(self, numbers: Float[Tensor, "B n"]) -> Float[Tensor, "B P"]:
        return (numbers.index_select(1, self.number) == self.level).to(numbers.dtype)


Encoding = Literal["piecewise", "periodic", "both", "plain"]
_ENCODINGS: dict[str, tuple[type[_Piecewise] | type[_Periodic] | type[_Levels], ...]] = {
    "piecewise": (_Piecewise, _Levels),
    "periodic": (_Periodic, _Levels),
    "both": (_Piecewise, _Periodic, _Levels),
    "plain": (),
}


class _Blocks(nn.Module):
    """An MLP whose layers are normalised row by row, or added to their input, or both."""

    def __init__(
        self,
        in_features: int,
        hidden: Sequence[int],
        out_features: int,
        activation: type[nn.Module],
        dropout: float,
        normalise: bool,
        residual: bool,
    ) -> None:
        super().__init__()
        widths = [in_features, *hidden]
        self.residual = residual
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Linear(width, size),
                nn.LayerNorm(size) if normalise else nn.Identity(),
                activation(),
                Dropout(dropout),
            )
            for width, size in zip(widths, hidden)
        )
        self.last = nn.Linear(widths[-1], out_features)

    def forward(self, x: Float[Tensor, "B d"]) -> Float[Tensor, "B Q"]:
        for block in self.blocks:
            y = block(x)
            x = x + y if self.residual and x.shape[1] == y.shape[1] else y
        return self.last(x)


class TabularNet(nn.Module):
    """A network from the rows (B, F) of a :class:`~svdkl.tables.encoder.TabularEncoder` to features (B, Q).

    Parameters
    ----------
    layout
        The encoder's layout, which fixes how the network reads each column.
    hidden, out_features, activation, dropout
        The parameters of :class:`~svdkl.nets.mlp.MLP`.
    embedding_dim
        Size of the learned vectors of categories that are not one-hot; "auto" grows it with their number of values.
    encoding
        What stands beside the plain number: its place in each of its bins ("piecewise"), sines and cosines of learned
        frequencies ("periodic"), both, or nothing ("plain"). All but "plain" add which frequent value it equals.
    normalise
        Whether layer normalisation, within each row, comes before each activation.
    residual
        Whether a layer as wide as the one before it is added to that one's output instead of replacing it.

    Examples
    --------
    >>> encoder = TabularEncoder().fit(X, y)
    >>> net = TabularNet(encoder.layout, out_features=50)
    >>> net(encoder.transform(X)).shape
    torch.Size([60, 50])
    """

    number_columns: Tensor
    flag_columns: Tensor
    level_columns: Tensor
    levels: Tensor

    def __init__(
        self,
        layout: Layout,
        hidden: Sequence[int] = (512, 512, 512),
        out_features: int = 64,
        embedding_dim: int | Literal["auto"] = "auto",
        encoding: Encoding = "piecewise",
        activation: str = "relu",
        dropout: float = 0.0,
        normalise: bool = False,
        residual: bool = False,
    ) -> None:
        super().__init__()
        _check(layout, embedding_dim, encoding, activation, dropout)
        self.layout = layout
        places = list(enumerate(layout.features))
        numbers = [(i, feature) for i, feature in places if isinstance(feature, Number)]
        codes = [(i, feature) for i, feature in places if isinstance(feature, Codes)]
        embedded = [(i, feature) for i, feature in codes if not feature.onehot]
        # Code 0 has no level: a value never seen before is all zeros, not a weight that was never trained.
        levels = [(i, code) for i, feature in codes if feature.onehot for code in range(1, feature.cardinality)]

        buffers = {
            "number_columns": [i for i, _ in numbers],
            "flag_columns": [i for i, feature in places if isinstance(feature, Flag)],
            "level_columns": [i for i, _ in levels],
            "levels": [code for _, code in levels],
        }
        for name, values in buffers.items():
            self.register_buffer(name, torch.tensor(values, dtype=torch.long), persistent=False)
        self.embedded_columns = [i for i, _ in embedded]
        tables = [_embedding(feature.cardinality, embedding_dim) for _, feature in embedded]
        self.embeddings = nn.ModuleList(tables)
        encodings = [kind([feature for _, feature in numbers]) for kind in _ENCODINGS[encoding]]
        self.encodings = nn.ModuleList(encodings)
        width = len(places) - len(codes) + len(levels) + sum(part.num_features for part in encodings)
        width += sum(table.embedding_dim for table in tables)
        if normalise or residual:
            kind = ACTIVATIONS[activation]
            self.layers: nn.Module = _Blocks(width, hidden, out_features, kind, dropout, normalise, residual)
        else:
            self.layers = MLP(width, hidden, out_features, activation, dropout)

    def inputs(self, x: Float[Tensor, "B F"]) -> Float[Tensor, "B P"]:
        """Return the input of the first layer: numbers, bins, flags, levels and embeddings of each row."""
        if x.dim() != 2 or x.shape[1] != len(self.layout):
            raise ValueError(
                f"Expected rows of {len(self.layout)} encoded columns, got shape {tuple(x.shape)}: transform the table "
                f"with the encoder that the layout came from."
            )
        numbers = x.index_select(1, self.number_columns)
        parts = [
            numbers,
            *(encoding(numbers) for encoding in self.encodings),
            x.index_select(1, self.flag_columns),
            (x.index_select(1, self.level_columns) == self.levels).to(x.dtype),
        ]
        parts += [table(x[:, i].long()) for i, table in zip(self.embedded_columns, self.embeddings)]
        return torch.cat(parts, 1)

    def forward(self, x: Float[Tensor, "B F"]) -> Float[Tensor, "B Q"]:
        """Return features of each row."""
        return self.layers(self.inputs(x))


def _embedding(cardinality: int, embedding_dim: int | Literal["auto"]) -> nn.Embedding:
    # fastai's rule of thumb for the length
    size = min(MAX_EMBEDDING, round(1.6 * cardinality**0.56)) if embedding_dim == "auto" else embedding_dim
    table = nn.Embedding(cardinality, size)
    with torch.no_grad():
        table.weight[0].zero_()
    return table


def _check(layout: Layout, embedding_dim: Any, encoding: str, activation: str, dropout: float) -> None:
    if len(layout) == 0:
        raise ValueError("Expected a layout with at least one column, got an empty one.")
    if embedding_dim != "auto" and (not isinstance(embedding_dim, int) or embedding_dim < 1):
        raise ValueError(f"Expected embedding_dim to be 'auto' or at least 1, got {embedding_dim!r}.")
    if encoding not in _ENCODINGS:
        raise ValueError(f"Expected an encoding out of {', '.join(_ENCODINGS)}, got {encoding!r}.")
    if activation not in ACTIVATIONS:
        raise ValueError(f"Expected an activation out of {', '.join(ACTIVATIONS)}, got {activation!r}.")
    if not 0 <= dropout < 1:
        raise ValueError(f"Expected dropout from 0 to below 1, got {dropout}.")
