"""Which encoding of numbers a table's real targets want: short runs of the network, judged by the held-out rows.

Targets that jump want the bins, targets that are smooth in the numbers are learned far better without: on validation
rows of kin40k the network's RMSE was half as large again with them, on those of energy a third smaller. No property of
a column tells, and a run of a fifth of the epochs does.

More training of a model that has been trained before: warm starts, and chunks of a table one after another.

A model for rows that are ready: built and trained, or trained on.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch

from svdkl.estimators.keeping import Kept, checkpoint_of, history_of
from svdkl.estimators.options import (
    MANY_ROWS,
    Model,
    build_net,
    check_head,
    features_of,
    head_options,
    network_options,
    structure_of,
)
from svdkl.model import SVDKL
from svdkl.training.batches import InMemory, Rows, Source, map_rows
from svdkl.training.best_epochs import state_to_scale
from svdkl.training.config import TrainingConfig
from svdkl.training.distributed import joined
from svdkl.training.history import Display, Epoch, History
from svdkl.training.linear_head import PlainNet
from svdkl.training.loop import run_stage
from svdkl.training.recipe import finish, head_stage, joint_stage, plain_stage, train

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
    for encoding in TRIED:
        estimator.network_options_ = {**options, "encoding": encoding}
        torch.manual_seed(config.seed)
        net, features = build_net(estimator, estimator.encoder_.layout, estimator.num_features_, estimator._num_outputs)
        history = History()
        train(
            net.to(source.device),
            features,
            estimator._num_outputs,
            estimator._likelihood(),
            source,
            held_out,
            short,
            history=history,
        )
        scores[encoding] = min(epoch.held_out_nlp for epoch in history.epochs)
    estimator.network_options_ = options
    return min(scores, key=lambda encoding: scores[encoding])


def continue_training(
    model: Model,
    source: Source,
    held_out: Rows,
    config: TrainingConfig,
    num_data: int,
    history: History,
    on_epoch: Callable[[Epoch], None],
) -> None:
    """Train all that the recipe trains last, for all epochs, from where the model stands.

    Parameters
    ----------
    num_data
        N of the bound: also the rows that the model has seen before, and will not see now, count.
    """
    generator = torch.Generator().manual_seed(config.seed)
    epochs = range(config.epochs)
    if isinstance(model, PlainNet):
        stage = plain_stage(model, config, epochs)
    elif config.recipe == "dnn_gp":
        stage = head_stage(model, config, epochs, num_data, generator)
    else:
        stage = joint_stage(model, config, epochs, num_data, generator)
    inputs, kept = source, held_out
    if isinstance(model, SVDKL) and config.recipe == "dnn_gp":
        source, kept = source.mapped(model.net.eval()), map_rows(held_out, model.net)
    standings = run_stage(stage, source, kept, config, generator, history, on_epoch=on_epoch)
    if isinstance(model, PlainNet):
        model.keep_best_to_scale(state_to_scale(standings))
    else:
        finish(model, inputs, held_out, config, generator, share=min(1.0, inputs.num_rows / num_data))
    model.eval()


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
    with torch.random.fork_rng(devices=[]), ExitStack() as stack:
        shown = estimator.verbose and joined().first
        report = stack.enter_context(Display(config, going_on=warm)).show if shown else _keep_quiet
        torch.manual_seed(config.seed)
        if warm:
            num_data = estimator.num_rows_seen_
            continue_training(estimator.model_, source, held_out, config, num_data, history, report)
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
            check_head(estimator, num_features, num_outputs, likelihood)
            estimator.model_ = train(
                net.to(source.device),
                num_features,
                num_outputs,
                likelihood,
                source,
                held_out,
                config,
                head_options(estimator),
                history,
                checkpoint_of(estimator, checkpoint, source, held_out, config),
                on_epoch=report,
            ).eval()
    estimator.history_ = [*estimator.history_, *history.epochs]
    estimator.n_iter_ = len(estimator.history_)
    estimator.loss_ = estimator.history_[-1].train_loss


def _keep_quiet(epoch: Epoch) -> None:
    pass
