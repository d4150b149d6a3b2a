"""One path of a network for several recipes: up to where a head joins it, the network of SV-DKL is the plain one.

All recipes draw the same numbers in an epoch, and one schedule of rates spans a run whatever its stages. So where a
plain network's run stands after the epochs before a head, SV-DKL with the same data and seed stands, too, bit for bit:
put where that run looks for its checkpoint, it goes on from there.
"""

from dataclasses import dataclass, replace

import torch

from svdkl.training.checkpoint import Checkpoint, Snapshot
from svdkl.training.config import NETWORK

# Tensors of a plain network, and their names where one feature an output is what the head is given (gps="outputs").
AS_FEATURES = {"net.": "net.0.", "head.mixing.": "net.1."}


@dataclass(frozen=True)
class Fork:
    """Another run's checkpoint, which takes over a plain network's state when both part.

    Attributes
    ----------
    checkpoint
        Of the other run.
    epochs
        Of its network before its head comes.
    as_features
        Whether its network ends in the outputs themselves, as in the paper's form.
    """

    checkpoint: Checkpoint
    epochs: int
    as_features: bool = False

    def follow(self, snapshot: Snapshot) -> None:
        """Keep a snapshot of the plain network's run, if it is the last that the other would have come to."""
        epoch, ended = snapshot.numbers["epoch"], snapshot.numbers["ended"]
        if snapshot.stage == NETWORK and (epoch == self.epochs or (ended and epoch < self.epochs)):
            self.checkpoint.save(_as_features(snapshot) if self.as_features else snapshot)


def _as_features(snapshot: Snapshot) -> Snapshot:
    groups = {}
    for group, tensors in snapshot.tensors.items():
        renamed = {_renamed(name): tensor for name, tensor in tensors.items()}
        if not group.endswith(".optimiser"):  # the layer that passes features on is not trained
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
