"""What the classifier and the regressor share: from a table to a trained model, and from rows to its predictions."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from svdkl.estimators.examples import (
    COUNTED_ROWS,
    Given,
    Weights,
    counted_rows,
    num_rows,
    order_of_content,
    read_numbers,
    read_table,
    read_weights,
    split,
    take_rows,
)
from svdkl.estimators.fitting import train_model
from svdkl.estimators.keeping import Kept, where_kept
from svdkl.estimators.options import Model, check_parameters, check_structure, choose_device, holds_out, training_config
from svdkl.estimators.predicting import in_equal_parts, join, uncertainty_of
from svdkl.estimators.storage import load_estimator, save_estimator
from svdkl.estimators.streaming import StreamedTable
from svdkl.model import SVDKL
from svdkl.shapes import Tensor
from svdkl.tables.bins import Task
from svdkl.tables.encoder import TabularEncoder
from svdkl.tables.table import Table
from svdkl.training.batches import InMemory, Rows
from svdkl.training.distributed import joined
from svdkl.training.history import Epoch
from svdkl.training.parquet_batches import EPOCH_ROWS

Array = npt.NDArray[Any]
Own = TypeVar("Own", bound="DeepKernelEstimator")
ENCODED_ROWS = 65_536  # rows of a table that are encoded at a time for a prediction


class DeepKernelEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """A network and Gaussian processes on its features, behind scikit-learn's interface."""

    model_: Model
    encoder_: TabularEncoder | None
    history_: list[Epoch]
    seconds_waited_: float
    likelihood: Any
    _task: Task

    # ------------------------------------------------------------------------------- what a kind of targets decides

    @abstractmethod
    def _read_targets(self, y: Any, reset: bool, classes: Any = None) -> Array:
        """Checked targets: class numbers (N,), or real values (N, C). With ``reset`` they also say what there is."""

    @abstractmethod
    def _weigh(self, y: Array, weight: Weights | None) -> Weights | None:
        """The weights of rows, with those of their classes."""

    @abstractmethod
    def _set_scale(self, fit: Given) -> None:
        """Learn from the rows to fit how targets are brought to the size of one."""

    @abstractmethod
    def _as_tensor(self, y: Array) -> Tensor:
        """Checked targets as the likelihood takes them."""

    @property
    @abstractmethod
    def _num_outputs(self) -> int:
        """C."""

    # ------------------------------------------------------------------------------------------------------- fitting

    def fit(self: Own, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None, checkpoint: Any = None) -> Own:
        """Train on a table.

        Parameters
        ----------
        X
            A numpy array, pandas or polars DataFrame, pyarrow Table: numbers, booleans, text, times, missing values.
            With a network of your own, numbers of any shape (rows, ...), such as images.
        y
            One target a row; for the regressor also several.
        sample_weight
            How many rows each row counts for. Those of weight 0 are as if they were not there.
        eval_set
            ``(X, y)`` or ``(X, y, sample_weight)``: rows for early stopping and the held-out evidence. By default, a
            share ``validation_fraction`` of the table is held out for that.
        checkpoint
            A file that keeps the state after every epoch; ``history.jsonl`` beside it holds the epochs. A fit of the
            same table with the same parameters that finds it, after a crash, goes on and ends with the same model;
            others are refused, and so are warm starts.

        Returns
        -------
        self
        """
        check_parameters(self)
        warm = bool(self.warm_start) and hasattr(self, "model_")
        path = where_kept(checkpoint, warm)
        if warm:
            check_structure(self)
        given = self._read(X, y, sample_weight, reset=not warm)
        return self._fit(given, eval_set, warm, path)

    def fit_parquet(
        self: Own,
        path: Any,
        target: str,
        *,
        drop: Sequence[str] = (),
        epoch_rows: int | None = None,
        checkpoint: Any = None,
    ) -> Own:
        """Train on Parquet files of any size, which are streamed: memory holds some hundred thousand rows at a time.

        Parameters
        ----------
        path
            A file, or a folder of files with the same columns.
        target
            The column to predict. All others are inputs, except those to ``drop``.
        epoch_rows
            Rows of an epoch, about; 2,000,000 by default. In larger files several epochs make a pass. With
            ``max_iter`` this sets how many rows are gone through.
        checkpoint
            As of :meth:`fit`.

        Returns
        -------
        self
        """
        check_parameters(self)
        kept = where_kept(checkpoint)
        found = StreamedTable(self, path, target, drop, epoch_rows or EPOCH_ROWS)
        train_model(self, found.source, found.held_out, found.config, checkpoint=kept)
        self.seconds_waited_ = found.source.waited
        return self

    def _partial_fit(self: Own, X: Any, y: Any, sample_weight: Any, classes: Any) -> Own:
        """The first chunk is a fit of its own, every other one epoch of the model that there is."""
        check_parameters(self)
        if not hasattr(self, "model_"):
            return self._fit(self._read(X, y, sample_weight, reset=True, classes=classes), None, warm=False)
        check_structure(self)
        given = self._read(X, y, sample_weight, reset=False, classes=classes)
        rows = self._rows(given)
        self.num_rows_seen_ += len(rows)
        config = training_config(self, len(rows), held_out=False, seed=self._seed())
        train_model(self, InMemory(rows), rows, replace(config, pretrain_epochs=0, joint_epochs=1), warm=True)
        return self

    def _fit(self: Own, given: Given, eval_set: Any, warm: bool, checkpoint: Kept | None = None) -> Own:
        seed = self._seed()
        if not (warm and hasattr(self, "split_seed_")):
            self.split_seed_ = seed  # another fit from there holds the same rows out: the network has not seen them
        fit, held = given, None if eval_set is None else self._read_eval_set(eval_set)
        if not holds_out(self):
            held = None
        elif held is None:
            fit, held = split(given, float(self.validation_fraction), self.split_seed_)
        if not warm:
            self._set_scale(fit)
            self.encoder_ = None if self.net is not None else TabularEncoder().fit(fit.X, fit.y, self._task)
            self.history_ = []
        rows = self._rows(fit)
        self.num_rows_seen_ = len(rows)
        config = training_config(self, len(rows), held is not None, seed)
        train_model(self, InMemory(rows), rows if held is None else self._rows(held), config, warm, checkpoint)
        return self

    def _likelihood(self) -> str:
        return str(self.likelihood)

    def _seed(self) -> int:
        """The first process's, where several fit together."""
        return joined().gather(int(check_random_state(self.random_state).randint(2**31 - 1)))[0]

    # ------------------------------------------------------------------------------------------------ rows to tensors

    def _read(self, X: Any, y: Any, sample_weight: Any, reset: bool, classes: Any = None) -> Given:
        """Check rows and leave out those of no weight; small tables are put into an order of their own."""
        if y is None:
            raise ValueError(
                f"Expected targets beside the table, got none: this {type(self).__name__} estimator requires y to be "
                f"passed, but the target y is None."
            )
        X = self._inputs(X, reset)
        check_consistent_length(range(num_rows(X)), y)
        weight = read_weights(sample_weight, num_rows(X))
        chosen, weight = counted_rows(weight, num_rows(X))
        if not isinstance(y, np.ndarray):
            y = np.asarray(y)
        if chosen is not None:
            X, y = X.cut(chosen) if isinstance(X, Table) else X[chosen], y[chosen]
        given = Given(X, self._read_targets(y, reset, classes), weight)
        if reset and len(given.y) < 2:
            raise ValueError("Expected at least 2 rows to fit, got n_samples=1: one row shows nothing that varies.")
        if len(given.y) <= COUNTED_ROWS:
            given = given.take(order_of_content(*given))
        return given._replace(weight=self._weigh(given.y, given.weight))

    def _read_eval_set(self, eval_set: Any) -> Given:
        if not isinstance(eval_set, tuple | list) or len(eval_set) not in (2, 3):
            raise ValueError(
                "Expected eval_set to be (X, y) or (X, y, sample_weight), got something else: one such "
                "tuple holds all held-out rows."
            )
        X, y, weight = (*eval_set, None)[:3]
        return self._read(X, y, weight, reset=False)

    def _inputs(self, X: Any, reset: bool) -> Any:
        return read_table(self, X, reset) if self.net is None else read_numbers(self, X, reset)

    def _encode(self, X: Any) -> Tensor:
        """Checked inputs as the network takes them."""
        if self.encoder_ is not None:
            return self.encoder_.transform(X)
        return torch.from_numpy(np.require(X, requirements=["C", "W"]))  # torch warns of arrays that are read-only

    def _rows(self, given: Given) -> Rows:
        device = choose_device(self.device)
        weight = None if given.weight is None else torch.tensor(given.weight, dtype=torch.float32, device=device)
        return Rows(self._encode(given.X).to(device), self._as_tensor(given.y).to(device), weight)

    # ----------------------------------------------------------------------------------------------------- prediction

    def _predict_rows(
        self, X: Any, function: Callable[..., Sequence[Tensor]], beside: Tensor | None = None
    ) -> list[Array]:
        """What a function of encoded rows gives for a table, and for what stands beside each of its rows."""
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        if beside is not None:
            check_consistent_length(range(num_rows(X)), beside)
        device = next(self.model_.parameters()).device
        blocks = []
        for start in range(0, num_rows(X), ENCODED_ROWS):
            rows = slice(start, min(num_rows(X), start + ENCODED_ROWS))
            x = self._encode(take_rows(X, rows))
            blocks.append(in_equal_parts(function, device, *([x] if beside is None else [x, beside[rows]])))
        return join(blocks)

    def _uncertainty(self, X: Any) -> list[Array]:
        """The fields of :class:`~svdkl.gp.prediction.Uncertainty`, in the model's units."""
        model = self._fitted_model()
        if not isinstance(model, SVDKL):
            raise ValueError(
                f"Expected a model with Gaussian processes to split its uncertainty, got recipe={self.recipe!r}: fit "
                f"with recipe='svdkl' or 'dnn_gp'."
            )
        return self._predict_rows(X, uncertainty_of(model))

    def _fitted_model(self) -> Model:
        check_is_fitted(self)
        return self.model_

    # ------------------------------------------------------------------------------------------------------- storage

    @abstractmethod
    def _targets_to_json(self) -> dict[str, Any]:
        """What fitting has learned of the targets."""

    @abstractmethod
    def _targets_from_json(self, data: dict[str, Any]) -> None:
        """Take that up again."""

    def save(self, path: Any) -> None:
        """Write the fitted model to a folder: ``model.safetensors`` and ``model.json``, all or nothing."""
        check_is_fitted(self)
        check_structure(self)
        save_estimator(self, path)

    @classmethod
    def load(cls: type[Own], path: Any, net: Any = None) -> Own:
        """The model that :meth:`save` wrote, with the same predictions to the last bit. No code of the folder is run.

        Parameters
        ----------
        path
            The folder.
        net
            The network, for models with one of your own: its numbers come from the folder, its code from you.
        """
        return load_estimator(cls, path, net)

    # -------------------------------------------------------------------------------------------------- scikit-learn

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # Text is read too. The tag for it would say that any Python object is, which is not so.
        tags.input_tags.allow_nan = self.net is None
        tags.target_tags.required = True
        return tags
