"""What can be trained: the network, the model on inputs, the head on features; each with its loss and its score.

The recipe from top to bottom: pretrain, initialise, train jointly, fit the held-out evidence.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from svdkl.gp.familiarity import MOST_ROWS
from svdkl.gp.head import GPHead
from svdkl.likelihoods import LikelihoodLike, build_likelihood
from svdkl.likelihoods.classes import Softmax
from svdkl.model import SVDKL
from svdkl.shapes import Tensor
from svdkl.training.batches import InMemory, Rows, Source, map_inputs, map_rows
from svdkl.training.best_epochs import AS_IS, NOW, SCALED, Standing, state_to_scale
from svdkl.training.checkpoint import Checkpoint, Snapshot
from svdkl.training.config import JOINT, NETWORK, WITH_HEAD, TrainingConfig
from svdkl.training.distributed import joined
from svdkl.training.evidence import fit_held_out_evidence
from svdkl.training.guard import snapshot
from svdkl.training.history import Epoch, History
from svdkl.training.linear_head import PlainNet
from svdkl.training.loop import Stage, run_stage
from svdkl.training.optimisers import joint_groups, plain_groups
from svdkl.training.warm_start import start_from_linear

SAMPLE_ROWS = 20_000  # that set the ranges of the features


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


def train(
    net: nn.Module,
    num_features: int,
    num_outputs: int,
    likelihood: LikelihoodLike,
    rows: Rows | Source,
    held_out: Rows,
    config: TrainingConfig,
    head_options: dict[str, Any] | None = None,
    history: History | None = None,
    checkpoint: Checkpoint | None = None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> PlainNet | SVDKL:
    """Train a network, or a network with a head, by the recipe that the configuration names.

    Parameters
    ----------
    net
        From inputs to features (B, Q); trained in place.
    rows, held_out
        Rows to fit, and rows for early stopping and the held-out evidence.
    checkpoint
        Where the state after every epoch is kept; a run that finds its own there goes on from it.

    Where torch.distributed has a process group, every process calls this alike, and all end with the same model.
    """
    history = history if history is not None else History()
    generator = torch.Generator().manual_seed(config.seed)
    source = InMemory(rows) if isinstance(rows, Rows) else rows
    processes = joined()
    common = (source, held_out, config, generator, history, checkpoint, on_epoch)

    # Stage 1: the network with its own last layer; for the plain networks this is all there is.
    with_head = config.recipe in WITH_HEAD
    options = head_options or {}
    plain = PlainNet(
        net,
        num_features,
        num_outputs,
        build_likelihood(likelihood, num_outputs),
        extra=config.recipe == "dnn_plus",
        identity=with_head and options.get("gps") == "outputs",
    ).to(source.device)
    _start_outputs(plain, source)
    processes.equalise(plain.state_dict().values())
    found = checkpoint.load() if checkpoint is not None else None
    if len(set(processes.gather(None if found is None else (found.stage, found.numbers["epoch"])))) > 1:
        raise ValueError(
            "Expected all processes to find the same checkpoint, got different ones: put it on storage that all see."
        )
    head_found = found is not None and found.stage == JOINT
    stage = plain_stage(plain, config, range(config.network_epochs))
    standings = {} if head_found else run_stage(stage, *common)
    if not with_head:
        plain.keep_best_to_scale(state_to_scale(standings))
        return plain
    if config.recipe == "dnn_gp":
        return add_head(plain, source, held_out, config, options, history, checkpoint, on_epoch)

    # Stage 2: a head that starts equal to that layer.
    model = SVDKL.from_parts(net, GPHead(num_features, num_outputs, plain.likelihood, **options).to(source.device))
    standing = standings.get(stage.criterion)
    if standing is not None:
        standing = _hand_over(standing, model, _sample_features(net, source, config, generator))

    # Stage 3: all parameters on the evidence lower bound.
    joint = range(config.pretrain_epochs, config.epochs)
    run_stage(joint_stage(model, config, joint, source.num_rows, generator), *common, standing)
    finish(model, source, held_out, config, generator)
    return model


def add_head(
    plain: PlainNet,
    source: Source,
    held_out: Rows,
    config: TrainingConfig,
    head_options: dict[str, Any],
    history: History,
    checkpoint: Checkpoint | None = None,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> SVDKL:
    """Stages 2 to 4 of "dnn_gp", on a network that is finished and stays as it is.

    The features of rows in memory are computed once.
    """
    generator = torch.Generator().manual_seed(config.seed)
    layer, net = plain.layer[0], plain.net.eval()
    assert isinstance(layer, nn.Linear)
    head = GPHead(layer.in_features, layer.out_features, copy.deepcopy(plain.likelihood), **head_options)
    model = SVDKL.from_parts(net, head.to(source.device))
    found = checkpoint.load() if checkpoint is not None else None
    if found is not None and found.stage == JOINT:  # a run that is resumed here has not trained its network anew
        _restore_net(net, found)
    else:
        start_from_linear(head, _sample_features(net, source, config, generator), layer.weight, layer.bias)
    # Streams compute them batch by batch, while the stage has its module in training mode.
    features, held_out_features = source.mapped(lambda x: net.eval()(x)), map_rows(held_out, net)
    after = range(config.epochs, config.epochs_in_all)
    stage = head_stage(model, config, after, source.num_rows, generator)
    run_stage(stage, features, held_out_features, config, generator, history, checkpoint, on_epoch)
    finish(model, source, held_out, config, generator)
    return model


def finish(
    model: SVDKL,
    source: Source,
    held_out: Rows,
    config: TrainingConfig,
    generator: torch.Generator,
    share: float = 1.0,
) -> None:
    """Stage 4: the posterior once more, on rows that the network has not been fitted to; then what the head remembers.

    Parameters
    ----------
    share
        Of the memory, for these rows; the rest keeps what the head remembered before.
    """
    if config.evidence:
        fit_held_out_evidence(model, held_out, config, generator.manual_seed(config.seed))
    sample = source.sample(MOST_ROWS, generator.manual_seed(config.seed))
    model.head.familiarity.remember(map_inputs(sample, model.net.eval()), share)
    joined().equalise(model.state_dict().values())  # all have done the same; rounding need not be
    model.eval()


def _sample_features(net: nn.Module, source: Source, config: TrainingConfig, generator: torch.Generator) -> Tensor:
    """Of the rows that set the features' ranges."""
    return map_inputs(source.sample(SAMPLE_ROWS, generator.manual_seed(config.seed)), net.eval())


def _restore_net(net: nn.Module, found: Snapshot) -> None:
    """Give a network the numbers that a snapshot of a whole model has for it."""
    state = found.tensors[f"{NOW}.module"]
    net.load_state_dict({name.removeprefix("net."): x for name, x in state.items() if name.startswith("net.")})


@torch.no_grad()
def _start_outputs(plain: PlainNet, source: Source) -> None:
    """Let the outputs start where the likelihood wants them; as they are, if it does not care."""
    start = plain.likelihood.start_outputs(*source.targets())
    if start is not None:
        last = plain.layer[-1]
        assert isinstance(last, nn.Linear)
        last.bias.copy_(start)


def _hand_over(standing: Standing, model: SVDKL, features: Tensor) -> Standing:
    """Start the head, and let the joint stage go on from where the network stood at its best epoch.

    Both the averaged and the trained network have a last layer, and a head that equals it. The optimiser's moments go
    on too: a fresh optimiser's first steps are all of full size, and would undo part of what was learned.
    """
    states = []
    for state in (standing.module, standing.averaged):  # the model is left with the average
        start_from_linear(model.head, features, state["layer.0.weight"], state["layer.0.bias"])
        kept = {name: tensor for name, tensor in state.items() if not name.startswith("layer.")}
        states.append({**snapshot(model), **_renamed(kept, model.head)})
    return Standing(
        module=states[0],
        optimiser=_renamed(standing.optimiser, model.head),
        average={name: tensor for name, tensor in states[1].items() if tensor.is_floating_point()},
        averaged_steps=standing.averaged_steps,
    )


def _renamed(tensors: dict[str, Tensor], head: GPHead) -> dict[str, Tensor]:
    """What the model calls the parameters that it shares with the network and its last layer.

    A is that layer's weights where each GP has one feature; larger groups start without its moments.
    """
    names = {"net.": "net.", "likelihood.": "head.likelihood."}
    if max(map(len, head.groups)) == 1:
        names["layer.0."] = "head.mixing."
    return {
        new + name.removeprefix(old): tensor
        for name, tensor in tensors.items()
        for old, new in names.items()
        if name.startswith(old)
    }
