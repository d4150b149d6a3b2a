"""A model for rows that are ready: built and trained, or trained on."""

from contextlib import ExitStack
from typing import Any

import torch

from svdkl.estimators.continuing import continue_training
from svdkl.estimators.encodings import is_open, try_encodings
from svdkl.estimators.keeping import Kept, checkpoint_of, history_of
from svdkl.estimators.settings import build_net, check_head, features_of, head_options, network_options
from svdkl.estimators.structure import structure_of
from svdkl.training.config import TrainingConfig
from svdkl.training.display import Display
from svdkl.training.distributed import joined
from svdkl.training.history import Epoch
from svdkl.training.recipe import train
from svdkl.training.rows import Rows, Source


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
