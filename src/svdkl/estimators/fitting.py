"""Which encoding of numbers a table's real targets want: short runs of the network, judged by the held-out rows.

Targets that jump want the bins, targets that are smooth in the numbers are learned far better without: on validation
rows of kin40k the network's RMSE was half as large again with them, on those of energy a third smaller. No property of
a column tells, and a run of a fifth of the epochs does.

More training of a model that has been trained before: warm starts, and chunks of a table one after another.

A model for rows that are ready: built and trained, or trained on.
"""

import copy
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch

from svdkl.estimators.keeping import Kept, checkpoint_of, history_of
from svdkl.estimators.options import (
    MANY_ROWS,
    build_head,
    build_net,
    features_of,
    network_options,
    structure_of,
)
from svdkl.training.batches import InMemory, Rows, Source
from svdkl.training.config import TrainingConfig
from svdkl.training.distributed import joined
from svdkl.training.history import Display, Epoch, History
from svdkl.training.linear_head import LinearHead
from svdkl.training.recipe import train, train_more

TRIED = ("piecewise", "plain")
TRIAL_SHARE = 0.2  # of the epochs, but not fewer than
FEWEST_EPOCHS = 5


def is_open(estimator: Any, source: Source, held_out: Rows, config: TrainingConfig) -> bool:
    """Whether runs are to choose: where they are wanted, with other rows to judge by."""
    judged = isinstance(source, InMemory) and source.rows is not held_out
    return judged and trial_epochs(estimator, source.num_rows, config) > 0


def trial_epochs(estimator: Any, num_rows: int, config: TrainingConfig) -> int:
    """Epochs of each run; 0 where none is wanted: for classes, in large tables, where the encoding is given."""
    wanted = estimator._task == "regression" and estimator.encoding == "auto" and estimator.net is None
    if not wanted or num_rows >= MANY_ROWS or config.epochs <= FEWEST_EPOCHS:
        return 0
    return max(FEWEST_EPOCHS, round(TRIAL_SHARE * config.epochs))


def try_encodings(estimator: Any, source: Source, held_out: Rows, config: TrainingConfig) -> str:
    """The encoding whose network does best on the held-out rows after a short run; all runs start alike."""
    epochs = trial_epochs(estimator, source.num_rows, config)
    short = replace(config, recipe="dnn", pretrain_epochs=epochs, joint_epochs=0)
    options, scores = estimator.network_options_, {}
    plain = copy.copy(estimator)
    if plain.recipe == "dnn_plus":
        plain.recipe = "dnn"
    for encoding in TRIED:
        plain.network_options_ = {**options, "encoding": encoding}
        torch.manual_seed(config.seed)
        net, features = build_net(plain, plain.encoder_.layout, plain.num_features_, plain._num_outputs)
        history = History()
        head = LinearHead(features, estimator._num_outputs, estimator._likelihood())
        train(net.to(source.device), head, source, held_out, short, history=history)
        scores[encoding] = min(epoch.held_out_nlp for epoch in history.epochs)
    return min(scores, key=lambda encoding: scores[encoding])


def train_model(
    estimator: Any,
    source: Source,
    held_out: Rows,
    config: TrainingConfig,
    warm: bool = False,
    checkpoint: Kept | None = None,
) -> None:
    """Give an estimator its model and history, or go on with those that it has."""
    history = history_of(checkpoint)
    on_stage_end = vars(estimator).get("on_stage_end_")
    with torch.random.fork_rng(devices=[]), ExitStack() as stack:
        shown = estimator.verbose and joined().first
        report = stack.enter_context(Display(config, going_on=warm)).show if shown else _keep_quiet
        torch.manual_seed(config.seed)
        if warm:
            num_data = estimator.num_rows_seen_
            train_more(estimator.model_, source, held_out, config, num_data, history, report, on_stage_end)
        else:
            own = estimator.net is not None
            features = features_of(estimator.net, held_out.x[:1]) if own else int(estimator.num_features)
            estimator.num_features_, estimator.structure_ = features, structure_of(estimator)
            estimator.network_options_ = network_options(estimator, source.num_rows)
            if is_open(estimator, source, held_out, config):
                estimator.network_options_["encoding"] = try_encodings(estimator, source, held_out, config)
                torch.manual_seed(config.seed)
            num_outputs, likelihood = estimator._num_outputs, estimator._likelihood()
            layout = None if own else estimator.encoder_.layout
            net, num_features = build_net(estimator, layout, features, num_outputs)
            estimator.model_ = train(
                net.to(source.device),
                build_head(estimator, num_features, num_outputs, likelihood),
                source,
                held_out,
                config,
                history=history,
                checkpoint=checkpoint_of(estimator, checkpoint, source, held_out, config),
                on_epoch=report,
                on_stage_end=on_stage_end,
            ).eval()
    estimator.history_ = [*estimator.history_, *history.epochs]
    estimator.n_iter_ = len(estimator.history_)
    estimator.loss_ = estimator.history_[-1].train_loss


def _keep_quiet(epoch: Epoch) -> None:
    pass
