"""The recipe from top to bottom: the network with a linear head, the warm start, all jointly, the held-out evidence."""

import torch
from torch import nn

from svdkl.gp.familiarity import MOST_ROWS
from svdkl.gp.head import GPHead
from svdkl.gp.head_protocol import Head
from svdkl.likelihoods.classes import Softmax
from svdkl.model import SVDKL
from svdkl.shapes import Tensor
from svdkl.training.batches import InMemory, Rows, Source, map_inputs, map_rows
from svdkl.training.best_epochs import AS_IS, NOW, SCALED, Standing
from svdkl.training.checkpoint import Checkpoint
from svdkl.training.config import JOINT, NETWORK, WITH_HEAD, TrainingConfig
from svdkl.training.distributed import joined
from svdkl.training.evidence import fit_held_out_evidence
from svdkl.training.history import History
from svdkl.training.linear_head import LinearHead
from svdkl.training.loop import OnEpoch, OnStageEnd, Stage, run_stage
from svdkl.training.optimisers import parameter_groups, snapshot
from svdkl.training.warm_start import start_from_linear

LAYER = "head.mixing."  # where a model's state has the last layer, and the mixing that starts equal to it
SAMPLE_ROWS = 20_000  # rows that set the ranges of the features: enough for their quantiles, and quick to compute


def stage_of(
    name: str,
    model: SVDKL,
    config: TrainingConfig,
    epochs: range,
    num_data: int,
    generator: torch.Generator,
    on_features: bool = False,
) -> Stage:
    """Build a stage that maximises the model's bound; ``on_features`` trains the head alone, on rows of features."""
    trained: SVDKL | Head = model.head if on_features else model
    return Stage(
        name,
        model,
        parameter_groups(model, config, train_net=not on_features),
        lambda batch: -trained.elbo(batch.x, batch.y, num_data, batch.weight, generator, batch.part).value,
        lambda batch: trained.log_predictive(batch.x, batch.y),
        epochs,
        (name == JOINT and config.joint_batch_size) or config.batch_size,
        (lambda batch: trained.predict_proba(batch.x)) if isinstance(model.head.likelihood, Softmax) else None,
        # The held-out evidence puts a model right that is too sure; a plain network is used as it is.
        SCALED if config.evidence and config.recipe in WITH_HEAD else AS_IS,
    )


def train(
    net: nn.Module,
    head: Head,
    rows: Rows | Source,
    held_out: Rows,
    config: TrainingConfig,
    *,
    history: History | None = None,
    checkpoint: Checkpoint | None = None,
    on_epoch: OnEpoch = lambda epoch: None,
    on_stage_end: OnStageEnd | None = None,
) -> SVDKL:
    """Train a network and a head by the recipe that the configuration names.

    Parameters
    ----------
    net
        From inputs to features (B, Q); trained in place.
    head
        The head that the model ends with, trained in place: a :class:`~svdkl.gp.head.GPHead` for "svdkl" and "dnn_gp",
        a :class:`~svdkl.training.linear_head.LinearHead` for "dnn" and "dnn_plus".
    rows, held_out
        Rows to fit, and rows for early stopping and the held-out evidence.
    checkpoint
        Where the state after every epoch is kept; a run that finds its own there goes on from it.
    on_stage_end
        Called after a stage with its name and how things stood at its best epoch by each criterion.

    Where torch.distributed has a process group, every worker calls this alike, and all end with the same model.
    """
    history = history if history is not None else History()
    generator = torch.Generator().manual_seed(config.seed)
    source = InMemory(rows) if isinstance(rows, Rows) else rows
    workers = joined()
    common = (source, held_out, config, generator, history, checkpoint, on_epoch, on_stage_end)
    gp_head = head if isinstance(head, GPHead) else None
    if (gp_head is not None) != (config.recipe in WITH_HEAD):
        needed = "a LinearHead" if gp_head is not None else "a GPHead"
        raise ValueError(f"Expected {needed} for recipe={config.recipe!r}, got a {type(head).__name__}.")

    # Stage 1: the network with a linear head; for plain networks this is all there is.
    model = SVDKL(net, head if gp_head is None else _linear_start(gp_head)).to(source.device)
    outputs = model.head.likelihood.start_outputs(*source.targets())
    if outputs is not None:
        with torch.no_grad():
            model.head.get_parameter("mixing.bias").copy_(outputs)
    workers.equalise(model.state_dict().values())
    found = checkpoint.load() if checkpoint is not None else None
    if len(set(workers.gather(None if found is None else (found.stage, found.numbers["epoch"])))) > 1:
        raise ValueError(
            "Expected all processes to find the same checkpoint, got different ones: put it on storage that all see."
        )
    standing = None
    if found is None or found.stage != JOINT:
        stage = stage_of(NETWORK, model, config, range(config.network_epochs), source.num_rows, generator)
        standing = run_stage(stage, *common)[stage.criterion]
    if gp_head is None:
        return model
    if config.recipe == "dnn_gp":
        return add_head(model, gp_head, source, held_out, config, history, checkpoint, on_epoch, on_stage_end)

    # Stage 2: a head that starts equal to that layer.
    model = SVDKL(net, gp_head.to(source.device))
    if standing is not None:
        features = _sample_features(net, source, config, generator)
        standing = _hand_over(standing, model, gp_head, features, config)

    # Stage 3: all parameters on the evidence lower bound.
    joint = range(config.pretrain_epochs, config.epochs)
    run_stage(stage_of(JOINT, model, config, joint, source.num_rows, generator), *common, standing)
    finish(model, source, held_out, config, generator)
    return model


def add_head(
    model: SVDKL,
    head: GPHead,
    source: Source,
    held_out: Rows,
    config: TrainingConfig,
    history: History,
    checkpoint: Checkpoint | None = None,
    on_epoch: OnEpoch = lambda epoch: None,
    on_stage_end: OnStageEnd | None = None,
) -> SVDKL:
    """Do stages 2 to 4 of "dnn_gp": train a head on a finished network, which stays as it is.

    The features of rows in memory are computed once.

    Parameters
    ----------
    model
        The network with its trained :class:`~svdkl.training.linear_head.LinearHead`.
    head
        The head to train in place; it starts equal to the linear one, with the same numbers in its likelihood.
    """
    generator = torch.Generator().manual_seed(config.seed)
    net, start = model.net.eval(), model.head.state_dict()
    head.likelihood.load_state_dict(model.head.likelihood.state_dict())
    model = SVDKL(net, head.to(source.device))
    found = checkpoint.load() if checkpoint is not None else None
    if found is not None and found.stage == JOINT:  # a run that is resumed here has not trained its network anew
        state = found.tensors[f"{NOW}.module"]
        net.load_state_dict({name.removeprefix("net."): x for name, x in state.items() if name.startswith("net.")})
    else:
        features = _sample_features(net, source, config, generator)
        start_from_linear(head, features, start["mixing.weight"], start["mixing.bias"], config.warm_start_config)
    epochs = range(config.epochs, config.epochs_in_all)
    stage = stage_of(JOINT, model, config, epochs, source.num_rows, generator, on_features=True)
    inputs = _features_of(net, source, held_out)
    run_stage(stage, *inputs, config, generator, history, checkpoint, on_epoch, on_stage_end)
    finish(model, source, held_out, config, generator)
    return model


def train_more(
    model: SVDKL,
    source: Source,
    held_out: Rows,
    config: TrainingConfig,
    num_data: int,
    history: History,
    on_epoch: OnEpoch = lambda epoch: None,
    on_stage_end: OnStageEnd | None = None,
) -> None:
    """Train everything that the recipe trains last, for all epochs, from where the model stands.

    Parameters
    ----------
    num_data
        N of the bound. Rows that the model has seen before, and does not see here, count too.
    """
    generator = torch.Generator().manual_seed(config.seed)
    with_head, on_features = config.recipe in WITH_HEAD, config.recipe == "dnn_gp"
    epochs = range(config.epochs)
    stage = stage_of(JOINT if with_head else NETWORK, model, config, epochs, num_data, generator, on_features)
    inputs = _features_of(model.net, source, held_out) if on_features else (source, held_out)
    run_stage(stage, *inputs, config, generator, history, None, on_epoch, on_stage_end)
    if with_head:
        finish(model, source, held_out, config, generator, share=min(1.0, source.num_rows / num_data))
    model.eval()


def finish(
    model: SVDKL,
    source: Source,
    held_out: Rows,
    config: TrainingConfig,
    generator: torch.Generator,
    share: float = 1.0,
) -> None:
    """Fit the posterior once more, to rows that the network has not been fitted to; then let the head remember rows.

    Parameters
    ----------
    share
        The share of the memory that these rows take; the rest keeps what the head remembered before.
    """
    if config.evidence:
        fit_held_out_evidence(model, held_out, config, generator.manual_seed(config.seed))
    sample = source.sample(MOST_ROWS, generator.manual_seed(config.seed))
    model.gp_head.familiarity.remember(map_inputs(sample, model.net.eval()), share)
    joined().equalise(model.state_dict().values())  # all have done the same; rounding need not be
    model.eval()


def _linear_start(head: GPHead) -> LinearHead:
    """Build the linear head of stage 1, from which a head will start; both share the likelihood."""
    if head.layout == "outputs":
        return LinearHead.fixed(head.num_outputs, head.likelihood)
    return LinearHead(head.num_features, head.num_outputs, head.likelihood)


def _features_of(net: nn.Module, source: Source, held_out: Rows) -> tuple[Source, Rows]:
    """Rows with their features as inputs, as a network in use gives them."""
    # Streams compute features batch by batch, while the stage has its module in training mode.
    return source.mapped(lambda x: net.eval()(x)), map_rows(held_out, net.eval())


def _sample_features(net: nn.Module, source: Source, config: TrainingConfig, generator: torch.Generator) -> Tensor:
    """Features of the rows that set their ranges."""
    return map_inputs(source.sample(SAMPLE_ROWS, generator.manual_seed(config.seed)), net.eval())


def _hand_over(standing: Standing, model: SVDKL, head: GPHead, features: Tensor, config: TrainingConfig) -> Standing:
    """Start the head, and let the joint stage go on from where the network stood at its best epoch.

    Both the averaged and the trained network have a last layer, and a head that equals it. The optimiser's moments go
    on too: a fresh optimiser's first steps are all of full size, and would undo part of what was learned.
    """
    states = []
    for state in (standing.module, standing.averaged):  # the model is left with the average
        weight, bias = state[f"{LAYER}weight"], state[f"{LAYER}bias"]
        start_from_linear(head, features, weight, bias, config.warm_start_config)
        kept = {name: tensor for name, tensor in state.items() if not name.startswith(LAYER)}
        states.append({**snapshot(model), **kept})
    return Standing(
        module=states[0],
        optimiser=shared_moments(standing.optimiser, head),
        average={name: tensor for name, tensor in states[1].items() if tensor.is_floating_point()},
        averaged_steps=standing.averaged_steps,
    )


def shared_moments(moments: dict[str, Tensor], head: GPHead) -> dict[str, Tensor]:
    """The optimiser's moments of parameters that a model with this head has, too.

    A is the last layer's weights where each GP has one feature; larger groups start without the layer's moments.
    """
    of_one = max(map(len, head.gps.groups)) == 1
    return {name: moment for name, moment in moments.items() if of_one or not name.startswith(LAYER)}
