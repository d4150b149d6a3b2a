"""Gaussian processes on a network that an estimator has finished training: the second half of recipe="dnn_gp"."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import torch

from svdkl.estimators.base import DeepKernelEstimator
from svdkl.estimators.options import build_head, holds_out, structure_of, training_config
from svdkl.training.batches import InMemory
from svdkl.training.best_epochs import AS_IS, SCALED, Standing
from svdkl.training.history import History
from svdkl.training.recipe import add_head

Own = TypeVar("Own", bound=DeepKernelEstimator)


def watched(estimator: Own) -> Own:
    """Let an estimator keep how its model stood at the best epochs of the last stage, in ``standings_``."""

    def keep(stage: str, standings: Mapping[str, Standing]) -> None:
        estimator.__dict__["standings_"] = standings

    estimator.__dict__["on_stage_end_"] = keep
    return estimator


def with_head(estimator: Own, X: Any, y: Any, eval_set: Any) -> Own:
    """What recipe="dnn_gp" would have given with the same rows, all of weight 1, from an estimator of recipe="dnn".

    The estimator stays as it is. With evidence it has to be :func:`watched`.
    """
    for name, needed in {"recipe": "dnn", "gps": "features", "early_stopping": True}.items():
        found = getattr(estimator, name)
        if found != needed:
            raise ValueError(f"Expected an estimator fitted with {name}={needed!r} to add a head to, got {found!r}.")
    plain = to_scale(estimator) if estimator.evidence else estimator
    result = copy.copy(estimator)
    result.recipe = "dnn_gp"
    result.structure_ = structure_of(result)
    rows = result._rows(result._read(X, y, None, reset=False))
    held_out = result._rows(result._read_eval_set(eval_set))
    config = training_config(result, len(rows), holds_out(result), estimator.split_seed_)
    history, layer = History(), plain.model_.head
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        head: Any = build_head(result, layer.num_features, layer.num_outputs, result._likelihood())
        result.model_ = add_head(plain.model_, head, InMemory(rows), held_out, config, history=history)
    result.history_ = [*plain.history_, *history.epochs]
    result.n_iter_ = len(result.history_)
    result.loss_ = result.history_[-1].train_loss
    return result


def to_scale(estimator: Own) -> Own:
    """An estimator of recipe="dnn" with the network of the epoch that is best after a temperature, if that is another.

    The estimator itself, which has to be :func:`watched`, has that of the epoch whose probabilities are best as they
    are.
    """
    result = copy.copy(estimator)
    standings = vars(estimator)["standings_"]
    best = standings[SCALED]
    if best is standings[AS_IS]:
        return result
    result.model_ = copy.deepcopy(estimator.model_)
    result.model_.load_state_dict(best.averaged)
    scores = [epoch.scaled_nlp or 0.0 for epoch in estimator.history_]
    number = 1 + scores.index(min(scores)) if best.averaged_steps else 0  # 0 stands for the start
    result.history_ = [replace(epoch, kept=epoch.epoch == number) for epoch in estimator.history_]
    return result
