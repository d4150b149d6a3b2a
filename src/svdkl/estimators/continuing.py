"""More training of a model that has been trained before: warm starts, and chunks of a table one after another."""

from collections.abc import Callable

import torch

from svdkl.estimators.settings import Model
from svdkl.model import SVDKL
from svdkl.shapes import Tensor
from svdkl.training.config import TrainingConfig
from svdkl.training.evidence import cached_features, fit_held_out_evidence
from svdkl.training.history import Epoch, History
from svdkl.training.loop import Stage, run_stage
from svdkl.training.optimisers import joint_groups, plain_groups
from svdkl.training.pretrain import PlainNet
from svdkl.training.rows import Rows


def continue_training(
    model: Model,
    rows: Rows,
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
    epochs = range(config.pretrain_epochs + config.joint_epochs)
    if isinstance(model, PlainNet):
        stage = _plain_stage(model, config, epochs)
    elif config.recipe == "dnn_gp":
        stage = _head_stage(model, config, epochs, num_data, generator)
    else:
        stage = _joint_stage(model, config, epochs, num_data, generator)
    given, kept = rows, held_out
    if isinstance(model, SVDKL) and config.recipe == "dnn_gp":
        given, kept = (Rows(cached_features(model.net, part.x), part.y, part.weight) for part in (rows, held_out))
    run_stage(stage, given, kept, config, generator, history, on_epoch=on_epoch)
    if config.evidence and isinstance(model, SVDKL):
        fit_held_out_evidence(model, held_out, config, generator)
    model.eval()


def _plain_stage(model: PlainNet, config: TrainingConfig, epochs: range) -> Stage:
    def loss(batch: Rows, progress: float) -> Tensor:
        log_prob = model.log_predictive(batch.x, batch.y)
        return -(log_prob if batch.weight is None else batch.weight * log_prob).mean()

    return Stage("network", model, plain_groups(model, config), loss, lambda b: model.log_predictive(b.x, b.y), epochs)


def _joint_stage(
    model: SVDKL, config: TrainingConfig, epochs: range, num_data: int, generator: torch.Generator
) -> Stage:
    return Stage(
        "joint",
        model,
        joint_groups(model, config, train_net=True),
        lambda batch, progress: -model.elbo(batch.x, batch.y, num_data, batch.weight, generator).value,
        lambda batch: model.log_predictive(batch.x, batch.y),
        epochs,
    )


def _head_stage(
    model: SVDKL, config: TrainingConfig, epochs: range, num_data: int, generator: torch.Generator
) -> Stage:
    head = model.head
    return Stage(
        "joint",
        model,
        joint_groups(model, config, train_net=False),
        lambda batch, progress: -head.elbo(batch.x, batch.y, num_data, batch.weight, generator).value,
        lambda batch: head.log_predictive(batch.x, batch.y),
        epochs,
    )
