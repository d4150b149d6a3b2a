"""A plain network at its two best epochs, and GPs on the finished network: the second half of recipe="dnn_gp"."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from svdkl.estimators.building import build_head
from svdkl.estimators.examples import TableLike
from svdkl.estimators.fitted import Fitted
from svdkl.estimators.fitting import TrainingSet, WhatIsSaved, fit_model, prepare_table
from svdkl.gp.head import GPHead
from svdkl.training.best_epochs import AS_IS, SCALED, Standing
from svdkl.training.history import Epoch, History
from svdkl.training.recipe import add_head


def fit_to_scale(
    given: TrainingSet, checkpoint: Path | None = None, on_save: WhatIsSaved | None = None
) -> tuple[Fitted, Fitted]:
    """Train a model; return it, and with its network of the epoch that scores best after temperature scaling.

    Only plain networks, which are kept at the epoch that scores best unscaled, have another such epoch. Where there is
    none, both are the same.
    """
    found: dict[str, Standing] = {}
    fitted = fit_model(given, checkpoint, on_save, lambda stage, standings: found.update(standings))
    return fitted, fitted if given.options.has_gps else to_scale(fitted, found)


def to_scale(fitted: Fitted, standings: Mapping[str, Standing]) -> Fitted:
    """Return a fit with the network of the epoch that scores best after temperature scaling.

    Parameters
    ----------
    fitted
        A fit of a plain network, which stays as it is.
    standings
        How things stood at the best epoch by each criterion.
    """
    standing = standings[SCALED]
    if standing is standings[AS_IS]:
        return fitted
    model = copy.deepcopy(fitted.model)
    model.load_state_dict(standing.averaged)
    best: Epoch | None = None  # where no step has been made, the network is the one that the stage started with
    if standing.averaged_steps:
        best = min(fitted.history, key=_scaled_score)
    history = [replace(epoch, kept=epoch is best) for epoch in fitted.history]
    return replace(fitted, model=model, history=history)


def with_head(plain: Fitted, X: TableLike, y: object, eval_set: object) -> Fitted:
    """Put GPs on the network of a fit with recipe="dnn", which stays as it is.

    With the same rows, all of weight 1, the result equals a fit with recipe="dnn_gp", if the network is of the epoch
    that this recipe keeps: with ``evidence``, the one that scores best after temperature scaling.
    """
    for name, needed in {"recipe": "dnn", "gps": "features", "early_stopping": True}.items():
        found = getattr(plain.options, name)
        if found != needed:
            raise ValueError(f"Expected an estimator fitted with {name}={needed!r} to add a head to, got {found!r}.")
    options, targets = replace(plain.options, recipe="dnn_gp"), plain.targets
    given = prepare_table(options, type(targets), X, y, eval_set=eval_set, known=plain)
    history = History()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(given.config.seed)
        head = build_head(options, plain.num_features, targets.num_outputs, targets.likelihood)
        assert isinstance(head, GPHead)
        model = add_head(plain.model, head, given.source, given.held_out, given.config, history=history)
    return replace(plain, options=options, model=model.eval(), history=[*plain.history, *history.epochs])


def _scaled_score(epoch: Epoch) -> float:
    return epoch.held_out_nlp if epoch.scaled_nlp is None else epoch.scaled_nlp
