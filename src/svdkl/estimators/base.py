"""What the classifier and the regressor share: scikit-learn's habits around a fit and a fitted model."""

from abc import ABC
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import nn

from svdkl.estimators.examples import TableLike
from svdkl.estimators.fitted import Fitted
from svdkl.estimators.fitting import fit_model, fit_more, prepare_table, read_checkpoint
from svdkl.estimators.options import Options
from svdkl.estimators.storage import load_fitted, save_fitted
from svdkl.estimators.streaming import open_stream
from svdkl.estimators.targets import Array, Targets
from svdkl.model import SVDKL
from svdkl.tables.encoder import TabularEncoder
from svdkl.training.history import Epoch

Own = TypeVar("Own", bound="DeepKernelEstimator")


class DeepKernelEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """A network and Gaussian processes on its features, behind scikit-learn's interface.

    Whatever a fit learns is in one value, ``fitted_``, which is assigned when the fit has come to its end: one that is
    interrupted leaves the model that was there before.
    """

    fitted_: Fitted
    _targets: ClassVar[type[Targets]]

    # ------------------------------------------------------------------------------------------------------- fitting

    def fit(
        self: Own,
        X: TableLike,
        y: object,
        sample_weight: object = None,
        eval_set: object = None,
        checkpoint: object = None,
    ) -> Own:
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
        options = self._options()
        known = self.fitted_ if options.warm_start and hasattr(self, "fitted_") else None
        place = None if checkpoint is None else read_checkpoint(checkpoint, warm=known is not None)
        if known is not None:
            known.options.refuse_other_model(options)
        given = prepare_table(options, self._targets, X, y, sample_weight, eval_set, known)
        self.fitted_ = fit_model(given, place) if known is None else fit_more(known, given)
        return self

    def fit_parquet(
        self: Own,
        path: str | Path,
        target: str,
        *,
        drop: Sequence[str] = (),
        epoch_rows: int | None = None,
        checkpoint: object = None,
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
            A file that keeps the state after every epoch, see :meth:`fit`.

        Returns
        -------
        self
        """
        options = self._options()
        place = None if checkpoint is None else read_checkpoint(checkpoint)
        self.fitted_ = fit_model(open_stream(options, self._targets, path, target, drop, epoch_rows), place)
        return self

    def _partial_fit(self: Own, X: TableLike, y: object, sample_weight: object, labels: object) -> Own:
        """Fit a model to the first chunk, and train it for one epoch on each other chunk."""
        options, known = self._options(), getattr(self, "fitted_", None)
        if known is None:
            self.fitted_ = fit_model(prepare_table(options, self._targets, X, y, sample_weight, labels=labels))
        else:
            known.options.refuse_other_model(options)
            given = prepare_table(
                options, self._targets, X, y, sample_weight, known=known, labels=labels, holds_out=False
            )
            self.fitted_ = fit_more(known, given, as_chunk=True)
        return self

    def _options(self) -> Options:
        """Return the parameters as options, checked."""
        return Options.of(self.get_params(deep=False))

    def _known(self) -> Fitted:
        """Return what a fit has learned; refuse an estimator that is not fitted."""
        check_is_fitted(self)
        return self.fitted_

    # ------------------------------------------------------------------------------------------- what a fit has learned

    @property
    def model_(self) -> SVDKL:
        """The torch module: a network and its head."""
        return self.fitted_.model

    @property
    def encoder_(self) -> TabularEncoder | None:
        """What turns a table into the network's inputs; None with a network of your own."""
        return self.fitted_.encoder

    @property
    def history_(self) -> list[Epoch]:
        """Each epoch of the training."""
        return self.fitted_.history

    @property
    def n_iter_(self) -> int:
        """How many epochs there were."""
        return len(self.fitted_.history)

    @property
    def loss_(self) -> float:
        """The training loss of the last epoch."""
        return self.fitted_.history[-1].train_loss

    @property
    def n_features_in_(self) -> int | None:
        """How many columns the table had."""
        return self.fitted_.columns.count

    @property
    def feature_names_in_(self) -> Array:
        """The names of the table's columns; there is no such attribute where it had none."""
        if self.fitted_.columns.names is None:
            raise AttributeError("Expected a table with named columns for feature_names_in_, got one without names.")
        return np.array(self.fitted_.columns.names, dtype=object)

    # -------------------------------------------------------------------------------------------------------- storage

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a folder: ``model.safetensors`` and ``model.json``, all or nothing."""
        fitted, options = self._known(), self._options()
        fitted.options.refuse_other_model(options)
        save_fitted(fitted, Path(path), options)

    @classmethod
    def load(cls: type[Own], path: str | Path, net: nn.Module | None = None) -> Own:
        """Load the model that :meth:`save` wrote, with the same predictions to the last bit; no code is run from there.

        Parameters
        ----------
        path
            The folder.
        net
            The network, for models with one of your own: its numbers come from the folder, its code from you.
        """
        return cls.of(load_fitted(Path(path), net, cls._targets))

    @classmethod
    def of(cls: type[Own], fitted: Fitted) -> Own:
        """Return an estimator that has been fitted so."""
        parameters = {name: getattr(fitted.options, name) for name in cls().get_params(deep=False)}
        estimator = cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in parameters.items()})
        estimator.fitted_ = fitted
        return estimator

    # -------------------------------------------------------------------------------------------------- scikit-learn

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # Text is read too. The tag for it would say that any Python object is, which is not so.
        tags.input_tags.allow_nan = getattr(self, "net", None) is None
        tags.target_tags.required = True
        return tags
