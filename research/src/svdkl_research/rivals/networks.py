"""The models of the package itself, by recipe: plain networks, a GP on frozen features, and SV-DKL."""

import copy
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from svdkl.estimators.building import training_config
from svdkl.estimators.classifier import SVDKLClassifier
from svdkl.estimators.fitted import Fitted
from svdkl.estimators.fitting import draw_seed, prepare_table
from svdkl.estimators.options import Options
from svdkl.estimators.regressor import SVDKLRegressor
from svdkl.estimators.targets import Classes, Reals
from svdkl.tables.bins import Task
from svdkl_research.add_head import fit_to_scale, with_head
from svdkl_research.datasets.dataset import Inputs
from svdkl_research.forks import followed_by
from svdkl_research.rivals.interface import Baseline, ClassBaseline, Floats, Gaussian, Labels, RealBaseline

Own = TypeVar("Own", bound="NetworkModel")


class NetworkModel(Baseline):
    """A network of svdkl, trained by one of the recipes.

    Attributes
    ----------
    estimator
        The classifier or regressor, which has the options and, after the training, the model.
    scaled
        The same fit with the network of the epoch that scores best after temperature scaling.
    """

    estimator: SVDKLClassifier | SVDKLRegressor
    scaled: Fitted

    @property
    def options(self) -> Options:
        """The estimator's parameters, checked."""
        return Options.of(self.estimator.get_params(deep=False))

    def fit(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels, seed: int) -> None:
        """Train by the recipe of the options."""
        self.estimator.set_params(random_state=seed)
        kind = Classes if isinstance(self.estimator, SVDKLClassifier) else Reals
        given = prepare_table(self.options, kind, X, y, eval_set=(X_held_out, y_held_out))
        fitted, self.scaled = fit_to_scale(given, self.checkpoint, followed_by(given, self.forks))
        self.estimator = self.estimator.of(fitted)

    def holding(self: Own, fitted: Fitted) -> Own:
        """Return a copy that holds another fit."""
        result = copy.copy(self)
        result.estimator, result.scaled = self.estimator.of(fitted), fitted
        return result

    def to_scale(self: Own) -> Own:
        """Return a copy with the network of the epoch that scores best after temperature scaling."""
        return self.holding(self.scaled)

    def with_gps(self: Own, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels) -> Own:
        """Return a copy with GPs on the features of the plain network, trained on the rows of its fit."""
        plain = self.scaled if self.options.evidence else self.estimator.fitted_
        return self.holding(with_head(plain, X, y, (X_held_out, y_held_out)))

    def settings(self) -> dict[str, Any]:
        """Return all parameters of the estimator."""
        return dict(self.estimator.get_params(deep=False))

    def findings(self) -> dict[str, Any]:
        """Return what "auto" stood for in network and training, and each stage's epochs, seconds and kept epoch.

        A stage that kept the state it started from has kept epoch 0.
        """
        fitted = self.estimator.fitted_
        stages: dict[str, dict[str, float]] = {}
        for epoch in fitted.history:
            stage = stages.setdefault(epoch.stage, {"epochs": 0, "seconds": 0.0, "kept": 0})
            stage["epochs"] += 1
            stage["seconds"] += epoch.seconds
            stage["kept"] = stage["epochs"] if epoch.kept else stage["kept"]
        options = fitted.options
        training = training_numbers(options, fitted.targets.task, fitted.num_rows_seen, draw_seed(options))
        network = {} if options.net is not None else {"network": fitted.network}
        return {**network, "training": training, "stages": stages}

    def save_history(self, path: Path) -> None:
        """Write all epochs, one JSON object a line."""
        path.write_text("".join(json.dumps(asdict(epoch)) + "\n" for epoch in self.estimator.history_))


def training_numbers(options: Options, task: Task, num_rows: int, seed: int) -> dict[str, Any]:
    """Return the numbers of a training with validation rows, those of its stages as ``evidence_steps`` and so on."""
    numbers = asdict(training_config(options, task, num_rows, options.holds_out, seed))
    for stage in ("warm_start", "evidence"):
        numbers |= {f"{stage}_{name}": value for name, value in numbers.pop(f"{stage}_config").items()}
    return numbers


class NetworkClassifier(NetworkModel, ClassBaseline):
    """SVDKLClassifier with some options; all others have their defaults."""

    def __init__(self, **options: Any) -> None:
        self.estimator: SVDKLClassifier = SVDKLClassifier(**options)

    def predict_proba(self, X: Inputs) -> Floats:
        """Return the class probabilities of each row, shape (rows, C)."""
        return self.estimator.predict_proba(X)


class NetworkRegressor(NetworkModel, RealBaseline):
    """SVDKLRegressor with some options; all others have their defaults."""

    def __init__(self, **options: Any) -> None:
        self.estimator: SVDKLRegressor = SVDKLRegressor(**options)

    def predict_distribution(self, X: pa.Table) -> Gaussian:
        """Return the predictive mean and standard deviation of each row, noise included."""
        mean, std = self.estimator.predict(X, return_std=True)
        return Gaussian(np.asarray(mean).reshape(-1), np.asarray(std).reshape(-1))
