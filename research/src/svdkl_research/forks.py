"""Training epochs that several recipes share: before its head is added, SV-DKL trains exactly the plain network.

All recipes draw the same random numbers in an epoch, and one learning rate schedule spans a run whatever its stages. So
the state of a plain network's run after those epochs equals SV-DKL's with the same data and seed, bit for bit. We put
that state where SV-DKL's run looks for its checkpoint, and the run goes on from there.
"""

from dataclasses import dataclass, replace

import torch

from svdkl.training.checkpoint import Checkpoint, Snapshot
from svdkl.training.config import NETWORK

# With gps="outputs" the plain network's last layer belongs to the features: the old and new beginnings of names.
AS_FEATURES = {"net.": "net.0.", "layer.0.": "net.1."}


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

    def follow(self, snapshot: Snapshot) -> None:
        """Save a snapshot of the plain network's run to the other checkpoint if it ends the epochs that both share."""
        epoch, ended = snapshot.numbers["epoch"], snapshot.numbers["ended"]
        if snapshot.stage == NETWORK and (epoch == self.epochs or (ended and epoch < self.epochs)):
            self.checkpoint.save(_as_features(snapshot) if self.as_features else snapshot)


def _as_features(snapshot: Snapshot) -> Snapshot:
    groups = {}
    for group, tensors in snapshot.tensors.items():
        renamed = {_renamed(name): tensor for name, tensor in tensors.items()}
        if not group.endswith(".optimiser"):  # the identity layer is not trained, so the optimiser does not have it
            bias = tensors["layer.0.bias"]
            renamed |= {
                "layer.0.weight": torch.eye(len(bias), dtype=bias.dtype),
                "layer.0.bias": torch.zeros_like(bias),
            }
        groups[group] = renamed
    return replace(snapshot, tensors=groups)


def _renamed(name: str) -> str:
    for old, new in AS_FEATURES.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name
