"""A model that has been fitted, with all that its predictions need: the one thing that other rooms are given of it.

Predictions go row by row: a row has the same bits whatever other rows are asked for at the same time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_consistent_length

from svdkl.estimators.examples import Columns, Inputs, Learned, NumberRows, TableLike, encode, read_inputs
from svdkl.estimators.options import Options
from svdkl.estimators.quantiles import draw, quantiles
from svdkl.estimators.targets import Array, Classes, Reals, Targets
from svdkl.gp.additive import HeadState
from svdkl.gp.prediction import predictive_moments, predictive_probabilities
from svdkl.model import SVDKL
from svdkl.shapes import Tensor
from svdkl.tables.encoder import TabularEncoder
from svdkl.tables.table import Table
from svdkl.training.history import Epoch

Floats = npt.NDArray[np.float64]

ENCODED_ROWS = (
    65_536  # rows of a table that are encoded at a time: a prediction then needs little memory beside the table
)
# A matrix product of one shape rounds a row in one way, and other shapes may round it in others: so the network always
# sees this many rows. 512 fill the cores, and few small predictions wait for rows that are only filled in.
ROWS_AT_ONCE = 512


class RowUncertainty(NamedTuple):
    """The uncertainty of each row: ``total = aleatoric + epistemic``.

    For classes the parts are entropies in nats, (rows,); for other targets variances, (rows,) or (rows, targets).
    """

    total: Floats
    aleatoric: Floats  # of the data: classes overlap here, or targets are noisy
    epistemic: Floats  # of the model: it has seen little that is like this row
    latent_variance: Floats  # of the model's outputs; for counts, of the logarithm of the rate
    ood_score: Floats  # (rows,): low for rows like those of training, 1 for rows unlike them


class SharedState(NamedTuple):
    """The part of a prediction that all rows share, and the marks of the numbers that it was computed from.

    A model that somebody trains further has other marks, and its state is computed anew.
    """

    state: HeadState | None
    marks: tuple[tuple[int, int], ...]

    @classmethod
    @torch.inference_mode()
    def of(cls, model: SVDKL) -> "SharedState":
        """Compute the state of a model."""
        return cls(model.head.state(), _marks(model))


def _marks(model: SVDKL) -> tuple[tuple[int, int], ...]:
    """Return where each tensor of the head lies, and how often it was written to."""
    return tuple((tensor.data_ptr(), tensor._version) for tensor in model.head.state_dict(keep_vars=True).values())


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model and what was learned beside it.

    Attributes
    ----------
    options
        The options that it was fitted with.
    learned
        What was learned of the columns and the targets.
    encoder
        What turns a table into the network's inputs; None for a network of the user's own.
    network
        The options of the network for tables, with what "auto" stood for.
    num_features
        Q, the number of features that the network gives the head.
    num_rows_seen
        How many rows it has been trained on, over all calls.
    split_seed
        The seed by which rows were held out; None for streamed tables, whose rows are held out as they are read.
    seconds_waited
        How long the training of a streamed table has waited for rows.
    shared
        What all predictions share, computed once.
    """

    options: Options
    learned: Learned
    encoder: TabularEncoder | None
    network: dict[str, Any]
    num_features: int
    model: SVDKL
    history: list[Epoch]
    num_rows_seen: int
    split_seed: int | None = None
    seconds_waited: float = 0.0
    shared: "SharedState" = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shared", SharedState.of(self.model))

    @property
    def columns(self) -> Columns:
        """What was learned of the columns."""
        return self.learned.columns

    @property
    def targets(self) -> Targets:
        """What was learned of the targets."""
        return self.learned.targets

    @property
    def classes(self) -> Classes | None:
        """The classes, or None for other targets."""
        return self.targets if isinstance(self.targets, Classes) else None

    @property
    def reals(self) -> Reals:
        """The real targets or counts of a model that has such."""
        assert isinstance(self.targets, Reals)
        return self.targets

    # ------------------------------------------------------------------------------------------------------ predictions

    def probabilities(self, X: TableLike) -> Floats:
        """Return class probabilities (rows, classes), in the order of the labels."""
        head = self.model.head
        (p,) = self._predict(X, lambda h, state: (predictive_probabilities(head.likelihood, head.latents(h, state)),))
        return p / p.sum(1, keepdims=True)

    def moments(self, X: TableLike) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of each row's target, noise included."""
        head = self.model.head
        moments = self._predict(X, lambda h, state: predictive_moments(head.likelihood, head.latents(h, state)))
        return self.reals.decode(moments[0]), self.reals.shaped(np.sqrt(moments[1]) * self.reals.scale)

    def quantiles(self, X: TableLike, levels: Floats) -> Floats:
        """Return quantiles of each row's target, (rows, levels) or (rows, targets, levels)."""
        mean, variance = self._predict(X, self.model.head.latent_gaussian)
        return self.reals.decode(quantiles(self.model.head.likelihood, mean, variance, levels))

    def draws(self, X: TableLike, num_samples: int, seed: int, random: np.random.RandomState) -> Floats:
        """Return draws of each row's target, each of one function for all rows, with noise of its own for each row."""

        def latent_draws(h: Tensor, state: HeadState | None) -> tuple[Tensor]:
            generator = torch.Generator(h.device).manual_seed(seed)  # the same function for each part of the rows
            return (self.model.head.latent_draws(h, num_samples, generator, state).movedim(0, -1),)

        (latent,) = self._predict(X, latent_draws)
        return self.reals.decode(draw(self.model.head.likelihood, latent, random))

    def uncertainty(self, X: TableLike) -> RowUncertainty:
        """Return how sure each prediction is, and what the doubt comes from."""
        if not self.options.has_gps:
            raise ValueError(
                f"Expected a model with Gaussian processes to split its uncertainty, got "
                f"recipe={self.options.recipe!r}: fit with recipe='svdkl' or 'dnn_gp'."
            )
        *parts, ood_score = self._predict(X, self.model.head.uncertainty)
        if self.classes is None:
            parts = [self.reals.shaped(part * self.reals.scale**2) for part in parts]
        return RowUncertainty._make([*parts, ood_score])

    def log_predictive(self, X: TableLike, y: object) -> Floats:
        """Return log p(y_i | x_i) of each row in the targets' units; of several targets, the sum over them."""
        head, targets = self.model.head, self.targets.to_tensor(self.targets.encode(np.asarray(y)))
        (values,) = self._predict(X, lambda h, state, y: (head.log_predictive(h, y, state),), targets)
        # p(y) = p(standardised y) / scale.
        return values if self.classes is not None else values - np.log(self.reals.scale).sum()

    # ----------------------------------------------------------------------------------------------- rows to tensors

    def read(self, X: TableLike) -> Inputs:
        """Open rows and check them against the columns that the model was fitted on; opened rows stay themselves.

        All predictions take opened rows, too. ``NumberRows`` are what the network reads: for a model of tables, rows
        that the encoder has encoded.
        """
        if isinstance(X, Table | NumberRows):
            return X
        return read_inputs(X, self.options.net, self.targets.estimator, self.columns)[0]

    def _predict(
        self, X: TableLike, function: Callable[..., Sequence[Tensor]], beside: Tensor | None = None
    ) -> list[Array]:
        """Call a function of features, of what all rows share and of what stands beside each row, on all rows."""
        inputs, model, shared = self.read(X), self.model, self.shared
        if beside is not None:
            check_consistent_length(range(inputs.num_rows), beside)
        if shared.marks != _marks(model):
            shared = SharedState.of(model)
        blocks: list[list[Array]] = []
        for start in range(0, inputs.num_rows, ENCODED_ROWS):
            stop = min(inputs.num_rows, start + ENCODED_ROWS)
            rows = [encode(self.encoder, inputs.part(start, stop))] + ([] if beside is None else [beside[start:stop]])
            blocks += _in_equal_parts(lambda x, *y: function(model.net(x), shared.state, *y), model, rows)
        return [np.concatenate(columns) for columns in zip(*blocks, strict=True)]


@torch.inference_mode()
def _in_equal_parts(
    function: Callable[..., Sequence[Tensor]], model: SVDKL, tensors: list[Tensor]
) -> list[list[Array]]:
    """Call a function on :data:`ROWS_AT_ONCE` rows at a time and list what it gives for them, as float64.

    The last part is filled up with copies of its last row.
    """
    device, parts = next(model.parameters()).device, []
    for part in zip(*(tensor.split(ROWS_AT_ONCE) for tensor in tensors), strict=True):
        size = len(part[0])
        if size < ROWS_AT_ONCE:
            part = tuple(torch.cat([t, t[-1:].expand(ROWS_AT_ONCE - size, *t.shape[1:])]) for t in part)
        results = function(*(tensor.to(device) for tensor in part))
        parts.append([result[:size].cpu().double().contiguous().numpy() for result in results])
    return parts
