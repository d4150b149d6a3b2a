"""A classifier with class probabilities that can be trusted."""

from collections.abc import Sequence
from typing import Any, ClassVar, no_type_check

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from torch import nn

from svdkl.estimators.base import DeepKernelEstimator
from svdkl.estimators.examples import TableLike
from svdkl.estimators.fitted import RowUncertainty
from svdkl.estimators.targets import Array, Classes, Floats, Targets


class SVDKLClassifier(ClassifierMixin, DeepKernelEstimator):  # type: ignore[misc]
    """Classes of the rows of a table, by Gaussian processes on the features of a network.

    Parameters
    ----------
    recipe
        "svdkl": network first, then network and processes jointly. "dnn_gp": processes on the finished network's
        features. "dnn", "dnn_plus": the network alone, for comparison.
    hidden, num_features, dropout, encoding, normalise, residual
        The network: see :class:`~svdkl.nets.tabular.TabularNet`. "auto" depends on the number of rows.
    net
        A torch module of your own, from rows (B, ...) of X, as float32, to features (B, Q). Images of uint8 stay what
        they are for one that has a :class:`~svdkl.nets.images.Standardise`.
    gps, grid_size, dims_per_gp, kernel, posterior
        The Gaussian processes: see :class:`~svdkl.gp.head.GPHead`.
    evidence
        Whether the GPs' posterior is fitted once more to the held-out rows. Epochs are then chosen by their
        held-out score after a temperature.
    max_iter
        Epochs of the network; "auto" takes fewer for larger tables. With "dnn_gp" a third as many of the head follow.
    batch_size, joint_batch_size
        Rows of a step, and of a step that trains the GPs, too. "auto" grows the first with the table; the second is
        the same then.
    learning_rate_init, alpha
        Step size, in steps of ``batch_size`` rows, and weight decay of the network.
    early_stopping, n_iter_no_change
        Whether a stage ends when so many epochs have brought nothing on the held-out rows.
    validation_fraction
        The share of rows that is held out, in tables where that is ten rows or more.
    class_weight
        None, "balanced", or a weight for each class. They shift weight between classes; all rows together weigh as much
        as before.
    random_state
        The same number gives the same model, to the last bit.
    warm_start
        Whether another ``fit`` goes on from the model that there is.
    device
        "auto", or a torch device.
    verbose
        Whether progress is shown: a bar on a terminal, a line for each epoch elsewhere.

    Attributes
    ----------
    classes_
        The labels, in the order of the probabilities' columns.
    model_, encoder_
        The torch module, and what turns a table into its inputs; None with a network of your own.
    history_, n_iter_, loss_
        Each epoch, how many there were, and the last one's training loss.
    n_features_in_, feature_names_in_
        Columns of the table, and their names if it had any.

    Examples
    --------
    >>> model = SVDKLClassifier(random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (60, 2)
    >>> model.save("model")
    >>> model = SVDKLClassifier.load("model")
    """

    _targets: ClassVar[type[Targets]] = Classes
    class_weight: dict[Any, float] | str | None

    @no_type_check  # fit checks the values, as scikit-learn wants it
    def __init__(
        self,
        *,
        recipe: str = "svdkl",
        hidden: Sequence[int] | str = "auto",
        num_features: int = 50,
        dropout: float | str = "auto",
        encoding: str = "auto",
        normalise: bool = False,
        residual: bool = False,
        net: nn.Module | None = None,
        gps: str = "features",
        grid_size: int | Sequence[int] = 32,
        dims_per_gp: int = 1,
        kernel: str | nn.Module = "rbf",
        posterior: str = "auto",
        evidence: bool = True,
        max_iter: int | str = "auto",
        batch_size: int | str = "auto",
        joint_batch_size: int | str = "auto",
        learning_rate_init: float = 1e-3,
        alpha: float | str = "auto",
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        class_weight: dict[Any, float] | str | None = None,
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        verbose: bool | int = False,
    ) -> None:
        self.recipe = recipe
        self.hidden = hidden
        self.num_features = num_features
        self.dropout = dropout
        self.encoding = encoding
        self.normalise = normalise
        self.residual = residual
        self.net = net
        self.gps = gps
        self.grid_size = grid_size
        self.dims_per_gp = dims_per_gp
        self.kernel = kernel
        self.posterior = posterior
        self.evidence = evidence
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.joint_batch_size = joint_batch_size
        self.learning_rate_init = learning_rate_init
        self.alpha = alpha
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.class_weight = class_weight
        self.random_state = random_state
        self.warm_start = warm_start
        self.device = device
        self.verbose = verbose

    def partial_fit(
        self, X: TableLike, y: object, classes: object = None, sample_weight: object = None
    ) -> "SVDKLClassifier":
        """Learn a table chunk by chunk: a fit to the first chunk, then one epoch on each other.

        Parameters
        ----------
        X, y, sample_weight
            The chunk's, see :meth:`fit`.
        classes
            All labels that will ever come; needed with the first chunk.

        Returns
        -------
        self
        """
        if classes is None and not hasattr(self, "fitted_"):
            raise ValueError("Expected classes with the first call of partial_fit, got None: name all labels to come.")
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"Expected class_weight to be None or a dict for partial_fit, got {self.class_weight!r}: a chunk does "
                f"not tell how frequent classes are."
            )
        return self._partial_fit(X, y, sample_weight, classes)

    def predict_proba(self, X: TableLike) -> Floats:
        """Return class probabilities (rows, classes), in the order of ``classes_``."""
        return self._known().probabilities(X)

    def predict_log_proba(self, X: TableLike) -> Floats:
        """Return the logarithms of the probabilities, finite also where a probability has underflown."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(np.float32).tiny))

    def predict(self, X: TableLike) -> Array:
        """Return the most probable class of each row."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_uncertainty(self, X: TableLike) -> RowUncertainty:
        """Return how sure each prediction is, and what the doubt comes from."""
        return self._known().uncertainty(X)

    def log_predictive(self, X: TableLike, y: object) -> Floats:
        """Return log p(y_i | x_i) of each row."""
        return self._known().log_predictive(X, y)

    @property
    def classes_(self) -> Array:
        """The labels, in the order of the probabilities' columns."""
        classes = self.fitted_.classes
        assert classes is not None
        return classes.labels
