"""Gradient boosting of trees by LightGBM, stopped and chosen by the validation rows.

The size of the trees matters most and differs between tables, so two are tried and the validation rows choose; the
time of both counts as training. Large tables take large trees, so only those are tried there, with larger steps.
"""

from typing import Any

import lightgbm
import numpy as np
import pyarrow as pa
import torch

from svdkl_research.rivals.interface import ClassBaseline, Floats, Gaussian, Labels, RealBaseline
from svdkl_research.rivals.matrix import CodedMatrix

SMALL_TREES = {"num_leaves": 31, "feature_fraction": 0.5, "bagging_fraction": 1.0, "learning_rate": 0.05}
LARGE_TREES = {"num_leaves": 127, "feature_fraction": 0.8, "bagging_fraction": 0.8, "learning_rate": 0.05}
LARGEST_TREES = {
    "num_leaves": 255,
    "feature_fraction": 0.8,
    "bagging_fraction": 0.8,
    "learning_rate": 0.1,
    # A leaf's value is gradient over curvature. Where all rows are nearly certain, the curvature vanishes and the value
    # runs away: with LightGBM's own limits Covertype's rare classes diverged after 70 rounds.
    "min_sum_hessian_in_leaf": 1.0,
    "lambda_l2": 1.0,
}
MANY_ROWS = 200_000
ROUNDS = 3000
PATIENCE = 100
OPTIONS: dict[str, Any] = {
    "min_data_in_leaf": 20,
    "bagging_freq": 1,
    "max_bin": 255,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}


class _Boosting:
    """Boosted trees for one objective, with their size chosen by the validation rows."""

    def __init__(self, objective: dict[str, Any], rounds: int) -> None:
        self.objective = objective
        self.rounds = rounds
        self.tried: list[dict[str, Any]] = []

    def fit(self, X: pa.Table, y: Labels, X_held_out: pa.Table, y_held_out: Labels, seed: int) -> None:
        self.matrix = CodedMatrix(X)
        held_out_x = self.matrix.transform(X_held_out)
        # On tables of a few hundred rows, leaves of the usual smallest size would leave few splits to make.
        smallest = min(OPTIONS["min_data_in_leaf"], max(1, len(y) // 50))
        options = {**OPTIONS, **self.objective, "min_data_in_leaf": smallest, "seed": seed}
        options["num_threads"] = torch.get_num_threads()
        data_options = {name: options[name] for name in ("max_bin", "min_data_in_leaf", "force_row_wise", "verbosity")}
        rows = lightgbm.Dataset(
            self.matrix.transform(X), y, categorical_feature=self.matrix.text_columns, params=data_options
        )
        held_out = rows.create_valid(held_out_x, y_held_out)
        for choice in (SMALL_TREES, LARGE_TREES) if len(y) < MANY_ROWS else (LARGEST_TREES,):
            trees = lightgbm.train(
                {**options, **choice},
                rows,
                self.rounds,
                valid_sets=[held_out],
                callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
            )
            score = float(trees.best_score["valid_0"][self.objective["metric"]])
            if not self.tried or score < min(other["held_out"] for other in self.tried):
                self.trees = trees
            self.tried.append({**choice, "rounds": trees.best_iteration, "held_out": score})

    def predict(self, X: pa.Table) -> Floats:
        return np.asarray(
            self.trees.predict(
                self.matrix.transform(X), num_iteration=self.trees.best_iteration, num_threads=torch.get_num_threads()
            )
        )

    def settings(self) -> dict[str, Any]:
        return {**OPTIONS, **self.objective, "rounds": self.rounds, "patience": PATIENCE}

    def findings(self) -> dict[str, Any]:
        return {"tried": self.tried, "chosen": min(self.tried, key=lambda one: one["held_out"])}


class BoostingClassifier(ClassBaseline):
    """Boosted trees that minimise the negative log probability of classes."""

    def __init__(self, rounds: int = ROUNDS) -> None:
        self.rounds = rounds
        self.boosting: _Boosting | None = None

    def fit(self, X: pa.Table, y: Labels, X_held_out: pa.Table, y_held_out: Labels, seed: int) -> None:
        """Grow trees until the score of the validation rows stops improving."""
        count = int(y.astype(np.int64).max()) + 1
        objective: dict[str, Any] = {"objective": "binary", "metric": "binary_logloss"}
        if count > 2:
            objective = {"objective": "multiclass", "metric": "multi_logloss", "num_class": count}
        self.boosting = _Boosting(objective, self.rounds)
        self.boosting.fit(X, y, X_held_out, y_held_out, seed)

    def predict_proba(self, X: pa.Table) -> Floats:
        """Return the class probabilities of each row, shape (rows, C)."""
        assert self.boosting is not None
        p = self.boosting.predict(X)
        return np.stack([1 - p, p], axis=1) if p.ndim == 1 else p

    def settings(self) -> dict[str, Any]:
        """Return the options of the trees and of the search for them."""
        return self.boosting.settings() if self.boosting else {**OPTIONS}

    def findings(self) -> dict[str, Any]:
        """Return the tree sizes that were tried, and the chosen one."""
        return self.boosting.findings() if self.boosting else {}


class BoostingRegressor(RealBaseline):
    """Boosted trees on squared errors; every row has the standard deviation of the validation residuals."""

    def __init__(self, rounds: int = ROUNDS) -> None:
        self.boosting = _Boosting({"objective": "regression", "metric": "l2"}, rounds)
        self.std = 1.0

    def fit(self, X: pa.Table, y: Labels, X_held_out: pa.Table, y_held_out: Labels, seed: int) -> None:
        """Grow trees until the validation score stops improving, then take the spread of the residuals there."""
        self.boosting.fit(X, y, X_held_out, y_held_out, seed)
        residuals = y_held_out.astype(np.float64) - self.boosting.predict(X_held_out)
        self.std = max(float(np.sqrt(np.mean(residuals**2))), 1e-6 * float(np.std(y.astype(np.float64))), 1e-12)

    def predict_distribution(self, X: pa.Table) -> Gaussian:
        """Return the trees' prediction, with the same standard deviation for all rows."""
        mean = self.boosting.predict(X)
        return Gaussian(mean, np.full_like(mean, self.std))

    def settings(self) -> dict[str, Any]:
        """Return the options of the trees and of the search for them."""
        return self.boosting.settings()

    def findings(self) -> dict[str, Any]:
        """Return the tree sizes that were tried, the chosen one, and the standard deviation."""
        return {**self.boosting.findings(), "std": self.std}
