"""The models of the package itself, by recipe: plain networks, a GP on frozen features, and SV-DKL."""

import copy
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from svdkl.estimators.classifier import SVDKLClassifier
from svdkl.estimators.keeping import Kept
from svdkl.estimators.options import holds_out, training_config
from svdkl.estimators.regressor import SVDKLRegressor
from svdkl_research.add_head import to_scale, watched
from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.interface import ClassBaseline, Floats, Gaussian, Labels, RealBaseline

Own = TypeVar("Own", bound="_Recorded")


class _Recorded:
    """What is reported of an estimator beside its predictions."""

    estimator: SVDKLClassifier | SVDKLRegressor

    def holding(self: Own, estimator: Any) -> Own:
        """The same with another estimator, which is fitted."""
        result = copy.copy(self)
        result.estimator = estimator
        return result

    def settings(self) -> dict[str, Any]:
        """All parameters of the estimator."""
        return dict(self.estimator.get_params(deep=False))

    def findings(self) -> dict[str, Any]:
        """What "auto" stood for, in the network and in its training; epochs and seconds of each stage, and the epoch
        that it kept, 0 for what it started from.
        """
        estimator = self.estimator
        stages: dict[str, dict[str, float]] = {}
        for epoch in estimator.history_:
            stage = stages.setdefault(epoch.stage, {"epochs": 0, "seconds": 0.0, "kept": 0})
            stage["epochs"] += 1
            stage["seconds"] += epoch.seconds
            stage["kept"] = stage["epochs"] if epoch.kept else stage["kept"]
        # As the estimator reads its parameters: fits here always come with validation rows.
        rows, held_out = estimator.num_rows_seen_, holds_out(estimator)
        training = asdict(training_config(estimator, rows, held_out, estimator._seed()))
        network = {} if estimator.net is not None else {"network": estimator.network_options_}
        return {**network, "training": training, "stages": stages}

    def save_history(self, path: Path) -> None:
        """Write each epoch of each stage."""
        path.write_text("".join(json.dumps(asdict(epoch)) + "\n" for epoch in self.estimator.history_))


class NetworkClassifier(_Recorded, ClassBaseline):
    """The classifier with options of its own, everything else as the user gets it."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.estimator: SVDKLClassifier = SVDKLClassifier(**options)

    def fit(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels, seed: int) -> None:
        """Train by the recipe."""
        self.estimator = watched(SVDKLClassifier(**self.options, random_state=seed))
        kept = self.checkpoint if self.checkpoint is None else Kept(self.checkpoint, self.forks)
        self.estimator.fit(X, y, eval_set=(X_held_out, y_held_out), checkpoint=kept)

    def predict_proba(self, X: Inputs) -> Floats:
        """Class probabilities (rows, C)."""
        return np.asarray(self.estimator.predict_proba(X))

    def to_scale(self) -> "NetworkClassifier":
        """The network of the epoch that is best after a temperature."""
        return self.holding(to_scale(self.estimator))


class NetworkRegressor(_Recorded, RealBaseline):
    """The regressor with options of its own, everything else as the user gets it."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.estimator: SVDKLRegressor = SVDKLRegressor(**options)

    def fit(self, X: pa.Table, y: Labels, X_held_out: pa.Table, y_held_out: Labels, seed: int) -> None:
        """Train by the recipe."""
        self.estimator = watched(SVDKLRegressor(**self.options, random_state=seed))
        self.estimator.fit(X, y, eval_set=(X_held_out, y_held_out), checkpoint=self.checkpoint)

    def predict_distribution(self, X: pa.Table) -> Gaussian:
        """Mean and standard deviation of the predictive distribution, noise included."""
        mean, std = self.estimator.predict(X, return_std=True)
        return Gaussian(np.asarray(mean).reshape(-1), np.asarray(std).reshape(-1))
