"""GPs on the network of a fitted estimator: the second half of recipe="dnn_gp"."""

import copy
from dataclasses import replace
from typing import Any, TypeVar

import torch

from svdkl.estimators.base import DeepKernelEstimator
from svdkl.estimators.options import head_options, holds_out, structure_of, training_config
from svdkl.training.batches import InMemory
from svdkl.training.history import Epoch, History
from svdkl.training.linear_head import PlainNet
from svdkl.training.recipe import add_head

Own = TypeVar("Own", bound=DeepKernelEstimator)


def with_head(estimator: Own, X: Any, y: Any, eval_set: Any) -> Own:
    """Put GPs on the network of an estimator with recipe="dnn", and return the result as a new estimator.

    With the same rows, all of weight 1, it equals an estimator that was fitted with recipe="dnn_gp". The estimator that
    is passed in stays as it is.
    """
    for name, needed in {"recipe": "dnn", "gps": "features", "early_stopping": True}.items():
        found = getattr(estimator, name)
        if found != needed:
            raise ValueError(f"Expected an estimator fitted with {name}={needed!r} to add a head to, got {found!r}.")
    plain = estimator.model_
    assert isinstance(plain, PlainNet)
    if estimator.evidence:
        plain = plain.best_to_scale()
    result = copy.copy(estimator)
    result.recipe = "dnn_gp"
    result.structure_ = structure_of(result)
    rows = result._rows(result._read(X, y, None, reset=False))
    held_out = result._rows(result._read_eval_set(eval_set))
    config = training_config(result, len(rows), holds_out(result), estimator.split_seed_)
    history = History()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        result.model_ = add_head(plain, InMemory(rows), held_out, config, head_options(result), history)
    result.history_ = [*_history_of(plain, estimator), *history.epochs]
    result.n_iter_ = len(result.history_)
    result.loss_ = result.history_[-1].train_loss
    return result


def to_scale(estimator: Own) -> Own:
    """Return an estimator with the network of the epoch that scores best after temperature scaling.

    The estimator that is passed in, of recipe="dnn", keeps the network whose probabilities score best unscaled.
    Both may be the same network.
    """
    plain = estimator.model_
    assert isinstance(plain, PlainNet)
    result = copy.copy(estimator)
    result.model_ = plain.best_to_scale()
    result.history_ = _history_of(result.model_, estimator)
    return result


def _history_of(plain: PlainNet, estimator: DeepKernelEstimator) -> list[Epoch]:
    """Return the estimator's epochs, with ``kept`` set for the epoch that the network is taken from."""
    if plain is estimator.model_:
        return list(estimator.history_)
    return [replace(epoch, kept=epoch.kept_to_scale) for epoch in estimator.history_]
