"""A regressor that gives distributions."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import RegressorMixin
from sklearn.utils import Tags, check_array, check_random_state

from svdkl.estimators.base import Array, DeepKernelEstimator
from svdkl.estimators.examples import Given, Weights
from svdkl.estimators.options import is_whole
from svdkl.estimators.predicting import (
    latent_draws_of,
    latent_gaussian_of,
    latents_of,
    likelihood_of,
    log_predictive_of,
)
from svdkl.estimators.quantiles import draw, quantiles, read_levels
from svdkl.gp.prediction import predictive_moments
from svdkl.shapes import Tensor
from svdkl.tables.bins import Task

Reals = npt.NDArray[np.float64]

REAL, COUNTS = ("gaussian", "student_t"), ("poisson", "negative_binomial")
LARGEST = 1e100  # target, so that variances are finite, too; the smallest accordingly


class TargetUncertainty(NamedTuple):
    """Variances of each row's targets: ``total = aleatoric + epistemic``, (rows,) or (rows, targets)."""

    total: Reals
    aleatoric: Reals  # of the data: noise
    epistemic: Reals  # of the model: it has seen little that is like this row
    latent_variance: Reals  # of the model's outputs; for counts of the logarithm of the rate
    ood_score: Reals  # (rows,): low for rows like those of training, 1 for rows unlike them


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
        The processes: see :class:`~svdkl.gp.head.GPHead`.
    evidence
        Whether the processes' posterior is fitted once more to the held-out rows.
    max_iter
        Epochs of the network; "auto" takes fewer for larger tables. With "dnn_gp" a third as many of the head follow.
    batch_size, joint_batch_size
        Rows of a step, and of one in which processes take part. "auto" grows the first with the table; the second is
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

    _task: Task = "regression"
    n_outputs_: int
    target_mean_: Reals
    target_scale_: Reals
    single_target_: bool

    def __init__(
        self,
        *,
        recipe: Any = "svdkl",
        likelihood: Any = "gaussian",
        hidden: Any = "auto",
        num_features: Any = 50,
        dropout: Any = "auto",
        encoding: Any = "auto",
        normalise: Any = False,
        residual: Any = False,
        net: Any = None,
        gps: Any = "features",
        grid_size: Any = 32,
        dims_per_gp: Any = 1,
        kernel: Any = "rbf",
        posterior: Any = "auto",
        evidence: Any = True,
        max_iter: Any = "auto",
        batch_size: Any = "auto",
        joint_batch_size: Any = "auto",
        learning_rate_init: Any = 1e-3,
        alpha: Any = "auto",
        early_stopping: Any = True,
        validation_fraction: Any = 0.1,
        n_iter_no_change: Any = 5,
        random_state: Any = None,
        warm_start: Any = False,
        device: Any = "auto",
        verbose: Any = False,
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

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "SVDKLRegressor":
        """Learn a table chunk by chunk: a fit to the first chunk, then one epoch on each other.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, sample_weight, None)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of each row's target; with ``return_std`` also the standard deviation, noise included."""
        model = self._fitted_model()
        latents, likelihood = latents_of(model), likelihood_of(model)
        mean, variance, *_ = self._predict_rows(X, lambda x: predictive_moments(likelihood, latents(x)))
        mean = self._shaped(mean * self.target_scale_ + self.target_mean_)
        return (mean, self._shaped(np.sqrt(variance) * self.target_scale_)) if return_std else mean

    def predict_quantiles(self, X: Any, levels: Any = (0.05, 0.5, 0.95)) -> Reals:
        """Quantiles of each row's target, (rows, levels) or (rows, targets, levels); one level has no axis."""
        wanted = read_levels(levels)
        model = self._fitted_model()
        mean, variance = self._predict_rows(X, latent_gaussian_of(model))
        values = quantiles(likelihood_of(model), mean, variance, np.atleast_1d(wanted))
        values = self._shaped(values * self.target_scale_[:, None] + self.target_mean_[:, None])
        return values if wanted.ndim else values[..., 0]

    def sample_y(self, X: Any, n_samples: Any = 1, random_state: Any = 0) -> Reals:
        """Draws of the targets, (rows, samples) or (rows, targets, samples).

        Each draw is of one function for all rows, with noise of its own for each row.
        """
        if not is_whole(n_samples, 1):
            raise ValueError(f"Expected n_samples to be a whole number of at least 1, got {n_samples!r}.")
        random = check_random_state(random_state)
        seed = int(random.randint(2**31 - 1))
        model = self._fitted_model()
        (latent,) = self._predict_rows(X, latent_draws_of(model, int(n_samples), seed))
        values = draw(likelihood_of(model), latent, random)
        return self._shaped(values * self.target_scale_[:, None] + self.target_mean_[:, None])

    def predict_uncertainty(self, X: Any) -> TargetUncertainty:
        """How sure each prediction is, and what the doubt comes from."""
        total, aleatoric, epistemic, latent, ood_score = self._uncertainty(X)
        parts = [self._shaped(part * self.target_scale_**2) for part in (total, aleatoric, epistemic, latent)]
        return TargetUncertainty._make([*parts, ood_score])

    def log_predictive(self, X: Any, y: Any) -> Reals:
        """Log p(y_i | x_i) of each row, in the targets' units; of several targets the sum of each one's own."""
        function = log_predictive_of(self._fitted_model())
        targets = self._as_tensor(self._read_targets(np.asarray(y), reset=False))
        # p(y) = p(standardised y) / scale.
        return self._predict_rows(X, function, targets)[0] - np.log(self.target_scale_).sum()

    # ------------------------------------------------------------------------------------------------------- targets

    def _read_targets(self, y: Any, reset: bool, classes: Any = None) -> Array:
        if self.likelihood not in (*REAL, *COUNTS):
            raise ValueError(f"Expected likelihood to be one of {', '.join(REAL + COUNTS)}, got {self.likelihood!r}.")
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y", estimator=self)
        targets = y[:, None] if y.ndim == 1 else y
        if reset:
            self.n_outputs_, self.single_target_ = targets.shape[1], y.ndim == 1
        elif targets.shape[1] != self.n_outputs_:
            raise ValueError(
                f"Expected {self.n_outputs_} target(s) a row, as when it was fitted, got {targets.shape[1]}: leave out "
                f"the others."
            )
        if self.likelihood in COUNTS and not ((targets >= 0) & (targets == np.floor(targets))).all():
            wrong = targets[~((targets >= 0) & (targets == np.floor(targets)))][0]
            raise ValueError(
                f"Expected counts 0, 1, 2, ... with likelihood={self.likelihood!r}, got {wrong:g}: use "
                f"likelihood='gaussian' for other numbers."
            )
        return targets

    def _weigh(self, y: Array, weight: Weights | None) -> Weights | None:
        return weight

    def _set_scale(self, fit: Given) -> None:
        self.target_mean_, self.target_scale_ = np.zeros(self.n_outputs_), np.ones(self.n_outputs_)
        if self.likelihood in REAL:
            size = np.abs(fit.y).max(0)
            wrong = size[(size > LARGEST) | ((size > 0) & (size < 1 / LARGEST))]
            if len(wrong):
                raise ValueError(
                    f"Expected targets of a size between {1 / LARGEST:g} and {LARGEST:g}, got {wrong[0]:g}: choose "
                    f"another unit for them."
                )
            self.target_mean_ = np.average(fit.y, 0, fit.weight)
            spread = np.sqrt(np.average((fit.y - self.target_mean_) ** 2, 0, fit.weight))
            varies = (fit.y != fit.y[:1]).any(0)  # the mean of equal numbers need not be that number
            self.target_scale_ = np.where(varies & (spread > 0), spread, 1.0)

    def _as_tensor(self, y: Array) -> Tensor:
        targets = torch.from_numpy((y - self.target_mean_) / self.target_scale_).float()
        if not bool(targets.isfinite().all()):
            raise ValueError(
                f"Expected targets of about the size that single precision can hold, got {np.abs(y).max():g}: choose "
                f"another unit for them."
            )
        return targets

    def _shaped(self, values: Array) -> Array:
        """Without the targets' axis, if y had none."""
        return values[:, 0] if self.single_target_ else values

    @property
    def _num_outputs(self) -> int:
        return self.n_outputs_

    def _targets_to_json(self) -> dict[str, Any]:
        return {
            "single": self.single_target_,
            "mean": self.target_mean_.tolist(),
            "scale": self.target_scale_.tolist(),
        }

    def _targets_from_json(self, data: dict[str, Any]) -> None:
        self.single_target_, self.n_outputs_ = bool(data["single"]), len(data["mean"])
        self.target_mean_, self.target_scale_ = (np.array(data[name], np.float64) for name in ("mean", "scale"))
        finite = np.isfinite([*self.target_mean_, *self.target_scale_]).all() and (self.target_scale_ > 0).all()
        if not finite or not len(self.target_mean_) == len(self.target_scale_) == self.n_outputs_ > 0:
            raise ValueError("not the means and scales of targets")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
