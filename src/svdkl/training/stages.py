"""What can be trained: the network, the model on inputs, the head on features; each with its loss and its score."""

import torch

from svdkl.head import GPHead
from svdkl.likelihoods.classes import Softmax
from svdkl.model import SVDKL
from svdkl.shapes import Tensor
from svdkl.training.config import JOINT, NETWORK, WITH_HEAD, TrainingConfig
from svdkl.training.loop import Stage
from svdkl.training.optimisers import joint_groups, plain_groups
from svdkl.training.pretrain import PlainNet
from svdkl.training.rows import Rows
from svdkl.training.scoring import AS_IS, SCALED


def plain_stage(model: PlainNet, config: TrainingConfig, epochs: range) -> Stage:
    """The network with its own last layer."""

    def loss(batch: Rows) -> Tensor:
        log_prob = model.log_predictive(batch.x, batch.y)
        return -(log_prob if batch.weight is None else batch.weight * log_prob).mean()

    return Stage(
        NETWORK,
        model,
        plain_groups(model, config),
        loss,
        lambda batch: model.log_predictive(batch.x, batch.y),
        epochs,
        config.batch_size,
        (lambda batch: model.probabilities(batch.x)) if isinstance(model.likelihood, Softmax) else None,
        # The plain network is used as it is; one that comes before a head is repaired with it.
        SCALED if config.evidence and config.recipe in WITH_HEAD else AS_IS,
    )


def joint_stage(
    model: SVDKL, config: TrainingConfig, epochs: range, num_data: int, generator: torch.Generator
) -> Stage:
    """All parameters, on inputs."""
    return _bound_stage(model, model, config, epochs, num_data, generator)


def head_stage(model: SVDKL, config: TrainingConfig, epochs: range, num_data: int, generator: torch.Generator) -> Stage:
    """The head alone, on features."""
    return _bound_stage(model, model.head, config, epochs, num_data, generator)


def _bound_stage(
    model: SVDKL,
    trained: SVDKL | GPHead,
    config: TrainingConfig,
    epochs: range,
    num_data: int,
    generator: torch.Generator,
) -> Stage:
    """The bound of what is trained: the whole model, or its head."""
    return Stage(
        JOINT,
        model,
        joint_groups(model, config, train_net=trained is model),
        lambda batch: -trained.elbo(batch.x, batch.y, num_data, batch.weight, generator, batch.part).value,
        lambda batch: trained.log_predictive(batch.x, batch.y),
        epochs,
        config.joint_batch_size or config.batch_size,
        (lambda batch: trained.predict_proba(batch.x)) if isinstance(model.head.likelihood, Softmax) else None,
        SCALED if config.evidence else AS_IS,
    )
