"""A classifier with class probabilities that can be trusted."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets

from svdkl.estimators.base import Array, DeepKernelEstimator
from svdkl.estimators.examples import Given, Weights, with_class_weight
from svdkl.estimators.predicting import latents_of, likelihood_of, log_predictive_of
from svdkl.estimators.targets import labels_from_json, labels_to_json, read_labels
from svdkl.gp.prediction import predictive_probabilities
from svdkl.shapes import Tensor
from svdkl.tables.bins import Task

Reals = npt.NDArray[np.float64]


class ClassUncertainty(NamedTuple):
    """Uncertainty of each row's class, in nats: ``total = aleatoric + epistemic``, all (rows,)."""

    total: Reals  # entropy of the class probabilities
    aleatoric: Reals  # of the data: classes overlap here
    epistemic: Reals  # of the model: it has seen little that is like this row
    latent_variance: Reals  # of each class's output, (rows, classes)
    ood_score: Reals  # low for rows like those of training, 1 for rows unlike them


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
        The processes: see :class:`~svdkl.gp.head.GPHead`.
    evidence
        Whether the processes' posterior is fitted once more to the held-out rows. Epochs are then chosen by their
        held-out score after a temperature.
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

    _task: Task = "classification"
    classes_: Array

    def __init__(
        self,
        *,
        recipe: Any = "svdkl",
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
        class_weight: Any = None,
        random_state: Any = None,
        warm_start: Any = False,
        device: Any = "auto",
        verbose: Any = False,
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

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> "SVDKLClassifier":
        """Learn a table chunk by chunk: a fit to the first chunk, then one epoch on each other.

        Parameters
        ----------
        X, y, sample_weight
            Of the chunk, as of :meth:`fit`.
        classes
            All labels that will ever come; needed with the first chunk.

        Returns
        -------
        self
        """
        if classes is None and not hasattr(self, "model_"):
            raise ValueError("Expected classes with the first call of partial_fit, got None: name all labels to come.")
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"Expected class_weight to be None or a dict for partial_fit, got {self.class_weight!r}: a chunk does "
                f"not tell how frequent classes are."
            )
        return self._partial_fit(X, y, sample_weight, classes)

    def predict_proba(self, X: Any) -> Reals:
        """Class probabilities (rows, classes), in the order of ``classes_``."""
        model = self._fitted_model()
        latents, likelihood = latents_of(model), likelihood_of(model)
        (probabilities,) = self._predict_rows(X, lambda x: (predictive_probabilities(likelihood, latents(x)),))
        return probabilities / probabilities.sum(1, keepdims=True)

    def predict_log_proba(self, X: Any) -> Reals:
        """Their logarithms, finite also where a probability has underflown."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(np.float32).tiny))

    def predict(self, X: Any) -> Array:
        """The most probable class of each row."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best]

    def predict_uncertainty(self, X: Any) -> ClassUncertainty:
        """How sure each prediction is, and what the doubt comes from."""
        return ClassUncertainty(*self._uncertainty(X))

    def log_predictive(self, X: Any, y: Any) -> Reals:
        """Log p(y_i | x_i) of each row."""
        function = log_predictive_of(self._fitted_model())
        return self._predict_rows(X, function, self._as_tensor(self._read_targets(np.asarray(y), reset=False)))[0]

    # ------------------------------------------------------------------------------------------------------- targets

    def _read_targets(self, y: Any, reset: bool, classes: Any = None) -> Array:
        y = read_labels(y)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        if reset:
            labels = np.unique(y if classes is None else read_labels(classes))
            if len(labels) < 2:
                raise ValueError(
                    f"Expected at least 2 classes, got 1 class, {labels.tolist()[0]!r}: there is nothing to tell apart."
                )
            self.classes_ = labels
        elif classes is not None and not np.array_equal(np.unique(read_labels(classes)), self.classes_):
            raise ValueError("Expected the same classes as in the first call, got others: leave them out.")
        known = np.isin(y, self.classes_)
        if not known.all():
            raise ValueError(
                f"Expected labels out of the classes {', '.join(map(repr, self.classes_.tolist()[:10]))}, got "
                f"{y[~known].tolist()[0]!r}: fit a new model for other classes."
            )
        return np.searchsorted(self.classes_, y)

    def _weigh(self, y: Array, weight: Weights | None) -> Weights | None:
        return with_class_weight(self.class_weight, self.classes_, y, weight)

    def _set_scale(self, fit: Given) -> None:
        pass

    def _as_tensor(self, y: Array) -> Tensor:
        return torch.from_numpy(y)

    def _likelihood(self) -> str:
        return "softmax"

    @property
    def _num_outputs(self) -> int:
        return len(self.classes_)

    def _targets_to_json(self) -> dict[str, Any]:
        return {"classes": labels_to_json(self.classes_)}

    def _targets_from_json(self, data: dict[str, Any]) -> None:
        self.classes_ = labels_from_json(data["classes"])
