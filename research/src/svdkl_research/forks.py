"""Training epochs that several recipes share: before its head is added, SV-DKL trains exactly the plain network.

All recipes draw the same random numbers in an epoch, and one learning rate schedule spans a run whatever its stages. So
the state of a plain network's run after those epochs equals SV-DKL's with the same data and seed, bit for bit. We put
that state where SV-DKL's run looks for its checkpoint, and the run goes on from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from svdkl.estimators.building import features_of, network_options, training_config
from svdkl.estimators.fitting import TrainingSet, WhatIsSaved, facts_of
from svdkl.estimators.options import Options
from svdkl.training.checkpoint import Checkpoint, Snapshot
from svdkl.training.config import NETWORK

# With gps="outputs" the plain network's last layer belongs to the features: the old and new beginnings of names.
AS_FEATURES = {"net.": "net.0.", "head.mixing.": "net.1."}


@dataclass(frozen=True)
class Fork:
    """The checkpoint of another run, which receives the plain network's state after the epochs that both share.

    Attributes
    ----------
    checkpoint
        The other run's checkpoint.
    epochs
        Number of epochs that the other run trains its network before it adds a head.
    as_features
        True if the other run's features are the plain network's outputs, as in the paper.
    """

    checkpoint: Checkpoint
    epochs: int
    as_features: bool = False

    @classmethod
    def of(cls, given: TrainingSet, path: Path, differing: Mapping[str, Any]) -> "Fork":
        """Make the fork for a run on the same rows as a plain network's, with some other options.

        The other checkpoint is told the same facts as the other run will tell it.
        """
        recipe, targets = given.options.recipe, given.learned.targets
        if recipe != "dnn":
            raise ValueError(f"Expected a fit with recipe='dnn' for others to go on from, got {recipe!r}.")
        if targets.task != "classification":  # the encoding of real targets' tables is found only as the other run fits
            raise ValueError(f"Expected a fit of classes for others to go on from, got {targets.task}.")
        options = Options.of({**vars(given.options), **differing})
        num_rows = given.source.num_rows
        config = training_config(options, targets.task, num_rows, given.holds_out, given.config.seed)
        network = network_options(options, targets.task, num_rows)
        own = options.net is not None
        num_features = features_of(options.net, given.held_out.x[:1]) if own else options.num_features
        checkpoint = Checkpoint(path, facts_of(replace(given, options=options), config, network, num_features))
        return cls(checkpoint, config.network_epochs, as_features=options.gps == "outputs")

    def follow(self, snapshot: Snapshot) -> None:
        """Save a snapshot of the plain network's run to the other checkpoint if it ends the epochs that both share."""
        epoch, ended = snapshot.numbers["epoch"], snapshot.numbers["ended"]
        if snapshot.stage == NETWORK and (epoch == self.epochs or (ended and epoch < self.epochs)):
            self.checkpoint.save(_as_features(snapshot) if self.as_features else snapshot)


def followed_by(given: TrainingSet, others: Mapping[Path, Mapping[str, Any]]) -> WhatIsSaved | None:
    """Return the callback by which a plain network's run leaves its state to other runs.

    Parameters
    ----------
    others
        By the path of another run's checkpoint, the options in which that run differs.
    """
    forks = [Fork.of(given, path, differing) for path, differing in others.items()]

    def follow(snapshot: Snapshot) -> None:
        for fork in forks:
            fork.follow(snapshot)

    return follow if forks else None


def _as_features(snapshot: Snapshot) -> Snapshot:
    groups = {}
    for group, tensors in snapshot.tensors.items():
        renamed = {_renamed(name): tensor for name, tensor in tensors.items()}
        if not group.endswith(".optimiser"):  # the identity layer is not trained, so the optimiser does not have it
            bias = tensors["head.mixing.bias"]
            renamed |= {
                "head.mixing.weight": torch.eye(len(bias), dtype=bias.dtype),
                "head.mixing.bias": torch.zeros_like(bias),
            }
        groups[group] = renamed
    return replace(snapshot, tensors=groups)


def _renamed(name: str) -> str:
    for old, new in AS_FEATURES.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name
