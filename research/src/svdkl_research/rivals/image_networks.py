"""The models of the package on images: a set's own network, and one budget for all models on a set."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from svdkl.estimators.classifier import SVDKLClassifier
from svdkl.nets.convnet import AlexNet, CifarQuick, LeNet, ResNet
from svdkl.nets.images import CropAndFlip, Standardise
from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.interface import ClassBaseline, Floats, Labels
from svdkl_research.rivals.networks import NetworkModel

NETWORKS: dict[str, type[nn.Module]] = {
    "lenet": LeNet,
    "cifar_quick": CifarQuick,
    "resnet20": ResNet,
    "alexnet": AlexNet,
}
# Parameters of the classifier that describe a table's network, or hold the network itself.
OF_TABLES = ("net", "hidden", "num_features", "dropout", "encoding", "normalise", "residual")


@dataclass(frozen=True)
class Budget:
    """The network and the training budget that all models on a set of images share.

    Attributes
    ----------
    epochs
        Most epochs of the network over all stages; early stopping may end each stage sooner.
    rate, weight_decay
        Learning rate and weight decay of the network.
    padding, flip
        Most pixels by which training images are shifted at random, and whether they are mirrored at random.
    """

    network: str
    epochs: int
    batch_size: int
    rate: float = 1e-3
    weight_decay: float = 0.05
    padding: int = 0
    flip: bool = False


BUDGETS: dict[str, Budget] = {
    "mnist": Budget("lenet", epochs=12, batch_size=256, padding=2),
    "mnist_binary": Budget("lenet", epochs=12, batch_size=256, padding=2),
    "cifar10": Budget("cifar_quick", epochs=16, batch_size=128, padding=4, flip=True),
    "cifar10_resnet": Budget("resnet20", epochs=8, batch_size=128, rate=3e-3, padding=4, flip=True),
    "svhn": Budget("cifar_quick", epochs=16, batch_size=128, padding=2),  # digits have no mirror images
    "tiny_imagenet20": Budget("alexnet", epochs=16, batch_size=64, weight_decay=0.1, padding=8, flip=True),
}


def build_network(budget: Budget, images: npt.NDArray[np.uint8], seed: int) -> nn.Module:
    """Build the network of a budget, from bytes to features, standardised by these images."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = [Standardise.of(images), NETWORKS[budget.network]()]
    if budget.padding or budget.flip:
        layers.insert(1, CropAndFlip(budget.padding, budget.flip))
    return nn.Sequential(*layers)


class ImageClassifier(NetworkModel, ClassBaseline):
    """SVDKLClassifier with the network and the budget of a set.

    Parameters
    ----------
    dataset
        Name of the set of images.
    max_epochs
        Most epochs, if fewer than the budget's.
    **options
        Further parameters of the classifier.
    """

    def __init__(self, dataset: str, max_epochs: int | None = None, **options: Any) -> None:
        if dataset not in BUDGETS:
            raise ValueError(f"Expected a set of images out of {', '.join(BUDGETS)}, got {dataset!r}.")
        budget = BUDGETS[dataset]
        self.budget = replace(budget, epochs=min(budget.epochs, max_epochs or budget.epochs))
        usual = {
            "max_iter": self.budget.epochs,
            "batch_size": self.budget.batch_size,
            "learning_rate_init": self.budget.rate,
            "alpha": self.budget.weight_decay,
        }
        self.estimator: SVDKLClassifier = SVDKLClassifier(**{**usual, **options})

    def fit(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels, seed: int) -> None:
        """Train by the recipe, from initial weights that are the same for all recipes."""
        self.estimator.set_params(net=build_network(self.budget, X, seed))
        super().fit(X, y, X_held_out, y_held_out, seed)

    def predict_proba(self, X: Inputs) -> Floats:
        """Return the class probabilities of each row, shape (rows, C)."""
        return self.estimator.predict_proba(X)

    def ood_scores(self, X: Inputs) -> dict[str, Floats]:
        """Return the doubt and, for models with GPs, their uncertainties."""
        scores = super().ood_scores(X)
        if not self.options.has_gps:
            return scores
        found = self.estimator.predict_uncertainty(X)
        return {**scores, "total": found.total, "epistemic": found.epistemic, "ood_score": found.ood_score}

    def settings(self) -> dict[str, Any]:
        """Return the budget, and the parameters of the classifier that do not describe the network."""
        parameters = {name: value for name, value in super().settings().items() if name not in OF_TABLES}
        return {**parameters, "budget": asdict(self.budget)}
