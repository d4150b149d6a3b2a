"""A regressor that gives distributions."""

from collections.abc import Sequence
from typing import ClassVar, no_type_check

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils import Tags, check_random_state
from torch import nn

from svdkl.estimators.base import DeepKernelEstimator
from svdkl.estimators.examples import TableLike
from svdkl.estimators.fitted import RowUncertainty
from svdkl.estimators.options import is_whole
from svdkl.estimators.quantiles import read_levels
from svdkl.estimators.targets import Floats, Reals, Targets


class SVDKLRegressor(RegressorMixin, DeepKernelEstimator):  # type: ignore[misc]
    """Distributions of one or many correlated targets of the rows of a table, by Gaussian processes on a network.

    Parameters
    ----------
    recipe
        "svdkl": network first, then network and processes jointly. "dnn_gp": processes on the finished network's
        features. "dnn", "dnn_plus": the network alone, for comparison.
    likelihood
        "gaussian"; "student_t" for targets with outliers; "poisson" and "negative_binomial" for counts.
    hidden, num_features, dropout, encoding, normalise, residual
        The network: see :class:`~svdkl.nets.tabular.TabularNet`. "auto" depends on the number of rows,
        for dropout also on the kind of target; the encoding of tables below 100,000 rows is chosen by short runs.
    net
        A torch module of your own, from rows (B, ...) of X, as float32, to features (B, Q). Images of uint8 stay what
        they are for one that has a :class:`~svdkl.nets.images.Standardise`.
    gps, grid_size, dims_per_gp, kernel, posterior
        The Gaussian processes: see :class:`~svdkl.gp.head.GPHead`.
    evidence
        Whether the GPs' posterior is fitted once more to the held-out rows.
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
    n_outputs_
        Targets of a row.
    model_, encoder_
        The torch module, and what turns a table into its inputs; None with a network of your own.
    target_mean_, target_scale_
        What real targets are standardised by inside; 0 and 1 for counts.
    history_, n_iter_, loss_
        Each epoch, how many there were, and the last one's training loss.
    n_features_in_, feature_names_in_
        Columns of the table, and their names if it had any.

    Examples
    --------
    >>> model = SVDKLRegressor(random_state=0).fit(X, y)
    >>> mean, deviation = model.predict(X, return_std=True)
    >>> low, high = model.predict_quantiles(X, (0.05, 0.95)).T
    """

    _targets: ClassVar[type[Targets]] = Reals

    @no_type_check  # fit checks the values, as scikit-learn wants it
    def __init__(
        self,
        *,
        recipe: str = "svdkl",
        likelihood: str = "gaussian",
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
        random_state: int | np.random.RandomState | None = None,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        verbose: bool | int = False,
    ) -> None:
        self.recipe = recipe
        self.likelihood = likelihood
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
        self.random_state = random_state
        self.warm_start = warm_start
        self.device = device
        self.verbose = verbose

    def partial_fit(self, X: TableLike, y: object, sample_weight: object = None) -> "SVDKLRegressor":
        """Learn a table chunk by chunk: a fit to the first chunk, then one epoch on each other.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, sample_weight, None)

    def predict(self, X: TableLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Return the mean of each row's target; with ``return_std`` also the standard deviation, noise included."""
        mean, deviation = self._known().moments(X)
        return (mean, deviation) if return_std else mean

    def predict_quantiles(self, X: TableLike, levels: object = (0.05, 0.5, 0.95)) -> Floats:
        """Return quantiles of each row's target, (rows, levels) or (rows, targets, levels); one level has no axis."""
        wanted = read_levels(levels)
        values = self._known().quantiles(X, np.atleast_1d(wanted))
        return values if wanted.ndim else values[..., 0]

    def sample_y(
        self, X: TableLike, n_samples: object = 1, random_state: int | np.random.RandomState | None = 0
    ) -> Floats:
        """Draw targets, (rows, samples) or (rows, targets, samples).

        Each draw is of one function for all rows, with noise of its own for each row.
        """
        if not is_whole(n_samples, 1):
            raise ValueError(f"Expected n_samples to be a whole number of at least 1, got {n_samples!r}.")
        random = check_random_state(random_state)
        seed = int(random.randint(2**31 - 1))
        return self._known().draws(X, int(n_samples), seed, random)

    def predict_uncertainty(self, X: TableLike) -> RowUncertainty:
        """Return the variance of each prediction, and what it comes from."""
        return self._known().uncertainty(X)

    def log_predictive(self, X: TableLike, y: object) -> Floats:
        """Return log p(y_i | x_i) of each row, in the targets' units; of several targets, the sum over them."""
        return self._known().log_predictive(X, y)

    @property
    def n_outputs_(self) -> int:
        """How many targets a row has."""
        return self.fitted_.targets.num_outputs

    @property
    def target_mean_(self) -> Floats:
        """What is taken from each real target inside; 0 for counts."""
        return self.fitted_.reals.mean

    @property
    def target_scale_(self) -> Floats:
        """What each real target is divided by inside; 1 for counts."""
        return self.fitted_.reals.scale

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
