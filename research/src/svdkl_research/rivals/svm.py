"""A support vector machine with an RBF kernel, by libsvm.

C and the kernel's width have the best cross-validated accuracy on some training rows. The time of libsvm grows with
the square of the rows, so a large table is cut down to random rows; the findings say how many.
Probabilities come from the validation rows: a softmax of the classes' scores with one slope and a bias a class, which
for two classes is Platt's sigmoid.
"""

from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.optimize import minimize
from scipy.special import log_expit, log_softmax, softmax
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.svm import SVC

from svdkl_research.rivals.interface import ClassBaseline, Floats, Labels
from svdkl_research.rivals.matrix import OneHotMatrix

COSTS = (0.1, 1.0, 10.0, 100.0)
WIDTHS = (0.03, 0.1, 0.3, 1.0, 3.0)  # gamma times the total variance of the inputs, so that they suit any table
FOLDS = 3
CACHE = 1000  # megabytes of the kernel matrix that libsvm keeps
PREDICTED_AT_ONCE = 1024
STEEPNESS = 2.0  # of σ in the scores: the larger, the closer each pair of classes comes to a vote


class MarginSoftmax:
    """The probabilities softmax(a s + b) of scores s (rows, C), with a slope a and a bias b for each class."""

    def __init__(self) -> None:
        self.slope = 1.0
        self.bias: Floats = np.zeros(0)

    def fit(self, scores: Floats, labels: Labels) -> None:
        """Fit slope and biases by maximum likelihood, with one more row of each class spread over all classes.

        That row keeps the slope finite where scores separate the classes, and gives a class without rows a chance.
        """
        classes, y = scores.shape[1], labels.astype(np.int64)
        counts = np.bincount(y, minlength=classes)
        targets = (np.eye(classes) * counts[:, None] + 1 / classes)[y] / (counts[y] + 1)[:, None]
        unit = float(np.sqrt(np.mean(scores**2))) or 1.0
        scaled = scores / unit

        def loss(parameters: Floats) -> tuple[float, Floats]:
            log_p = log_softmax(parameters[0] * scaled + parameters[1:], axis=1)
            error = (np.exp(log_p) - targets) / len(y)
            return -float((targets * log_p).sum()) / len(y), np.concatenate([[(error * scaled).sum()], error.sum(0)])

        found = minimize(loss, np.concatenate([[1.0], np.zeros(classes)]), jac=True, method="L-BFGS-B").x
        self.slope, self.bias = float(found[0]) / unit, found[1:]

    def apply(self, scores: Floats) -> Floats:
        """Return the probabilities of scores, shape (rows, C)."""
        return np.asarray(softmax(self.slope * scores + self.bias, axis=1))


class SupportVectorMachine(ClassBaseline):
    """An SVM on standardised numbers and one-hot labels.

    Parameters
    ----------
    rows
        Most training rows that the machine is fitted to.
    search_rows
        Most rows that C and the width are chosen on.
    """

    def __init__(self, rows: int = 50_000, search_rows: int = 6000) -> None:
        self.rows = rows
        self.search_rows = search_rows
        self.found: dict[str, Any] = {}

    def fit(self, X: pa.Table, y: Labels, X_held_out: pa.Table, y_held_out: Labels, seed: int) -> None:
        """Choose C and the width, fit the machine, then fit its probabilities to the validation rows."""
        y = y.astype(np.int64)
        self.classes = int(max(y.max(), y_held_out.max())) + 1
        if len(np.unique(y)) < 2:
            raise ValueError("Expected rows of at least two classes for svm, got one.")
        random = np.random.default_rng(seed)
        self.matrix = OneHotMatrix(X)
        chosen = some_of_each_class(y, self.rows, random)
        x, y = self._expand(self.matrix.code(X)[chosen]), y[chosen]
        best = self._search(x, y, random)
        self.machine = SVC(C=best["C"], gamma=best["gamma"], cache_size=CACHE).fit(x, y)
        self.weights = pair_weights(self.machine)
        self.softmax = MarginSoftmax()
        self.softmax.fit(self._scores(X_held_out), y_held_out)
        self.found = {
            **best,
            "rows": len(y),
            "of_rows": X.num_rows,
            "support_vectors": int(self.machine.n_support_.sum()),
        }

    def predict_proba(self, X: pa.Table) -> Floats:
        """Return the class probabilities of each row, shape (rows, C)."""
        return self.softmax.apply(self._scores(X))

    def settings(self) -> dict[str, Any]:
        """Return sizes and the grid of the search."""
        grid = {"C": list(COSTS), "gamma_times_variance": list(WIDTHS), "folds": FOLDS}
        return {"kernel": "rbf", "rows": self.rows, "search_rows": self.search_rows, **grid}

    def findings(self) -> dict[str, Any]:
        """Return C and the width that were chosen, and the number of rows fitted."""
        return dict(self.found)

    def _search(self, x: Floats, y: Labels, random: np.random.Generator) -> dict[str, Any]:
        some = some_of_each_class(y, self.search_rows, random)
        x, y = x[some], y[some]
        variance = max(float(x.var(0).sum()), 1e-12)
        fold = np.empty(len(y), np.int64)
        fold[np.lexsort((random.random(len(y)), y))] = np.arange(len(y)) % FOLDS  # each class is spread over all folds
        grid = {"C": list(COSTS), "gamma": [width / variance for width in WIDTHS]}
        search = GridSearchCV(SVC(cache_size=CACHE), grid, cv=PredefinedSplit(fold), refit=False, error_score="raise")
        search.fit(x, y)
        return {**search.best_params_, "cv_accuracy": float(search.best_score_), "cv_rows": len(y)}

    def _scores(self, X: pa.Table) -> Floats:
        """Return the scores of a table, shape (rows, C)."""
        codes = self.matrix.code(X)
        known, pairs = self.machine.classes_, self.machine.intercept_
        offsets = -pairs if len(pairs) == 1 else pairs
        scores = np.zeros((len(codes), self.classes))
        for begin in range(0, len(codes), PREDICTED_AT_ONCE):
            part = slice(begin, begin + PREDICTED_AT_ONCE)
            kernel = rbf_kernel(self._expand(codes[part]), self.machine.support_vectors_, self.machine.gamma)
            scores[part, known] = pair_scores(kernel @ self.weights + offsets, len(known))
        return scores

    def _expand(self, codes: Floats) -> Floats:
        return self.matrix.expand(codes).astype(np.float64)


def pair_scores(margins: Floats, classes: int) -> Floats:
    """Sum log σ(margin) over the pairs of each class, from margins (rows, pairs) in favour of a pair's first class.

    A class that loses clearly to one other gets a low score, however clearly it wins against the rest; sums of the
    margins themselves would hide that. For two classes the difference of the scores is the margin.
    """
    scores = np.zeros((len(margins), classes))
    for (first, second), margin in zip(combinations(range(classes), 2), STEEPNESS * margins.T):
        scores[:, first] += log_expit(margin)
        scores[:, second] += log_expit(-margin)
    return scores / STEEPNESS


def pair_weights(machine: SVC) -> Floats:
    """Return the weights (support vectors, pairs) of each pair's margin in favour of its first class.

    libsvm fits a machine to each pair. A support vector of class i has its weight against class j in row j of
    ``dual_coef_``, which leaves out the row of i itself.
    """
    ends = np.cumsum(machine.n_support_)
    own = [slice(end - count, end) for end, count in zip(ends, machine.n_support_)]
    pairs = list(combinations(range(len(own)), 2))
    weights = np.zeros((int(ends[-1]), len(pairs)))
    for pair, (i, j) in enumerate(pairs):
        weights[own[i], pair] = machine.dual_coef_[j - 1, own[i]]
        weights[own[j], pair] = machine.dual_coef_[i, own[j]]
    # With one pair, scikit-learn turns the sign so that margins favour the second class.
    return -weights if len(pairs) == 1 else weights


def some_of_each_class(y: Labels, count: int, random: np.random.Generator) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the indices of ``count`` random rows, and of one row for each class without any, in ascending order."""
    order = random.permutation(len(y))
    first = order[np.unique(y[order], return_index=True)[1]]
    return np.union1d(order[:count], first)
