"""More training of a model that has been trained before: warm starts, and chunks of a table one after another."""

from collections.abc import Callable

import torch

from svdkl.estimators.settings import Model
from svdkl.model import SVDKL
from svdkl.training.config import TrainingConfig
from svdkl.training.history import Epoch, History
from svdkl.training.loop import run_stage
from svdkl.training.pretrain import PlainNet
from svdkl.training.progress import state_to_scale
from svdkl.training.recipe import finish
from svdkl.training.rows import Rows, Source, map_rows
from svdkl.training.stages import head_stage, joint_stage, plain_stage


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
