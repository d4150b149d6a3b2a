"""The interface of all models. Each gets the same rows to fit and the same validation rows, and no others."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from svdkl_research.datasets.dataset import Inputs

Floats = npt.NDArray[np.floating]
Labels = npt.NDArray[np.generic]
DOUBT = "doubt"  # the score that every model of classes has: the probability of all other classes


@dataclass(frozen=True)
class Gaussian:
    """Predictive mean and standard deviation (noise included) of each row, in the target's unit."""

    mean: Floats
    std: Floats


class Baseline(ABC):
    """A model that is fitted once.

    Attributes
    ----------
    checkpoint
        File, in a folder of its own, in which models keep the state of their training to go on from it.
    forks
        Other models that begin with the epochs of this plain network: where each looks for its checkpoint, and the
        options in which it differs.
    """

    checkpoint: Path | None = None
    forks: Mapping[Path, Mapping[str, Any]] = MappingProxyType({})

    @abstractmethod
    def fit(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels, seed: int) -> None:
        """Fit to the rows. The held-out rows serve early stopping and other choices."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return all settings that define the model, as JSON can hold them."""

    def findings(self) -> dict[str, Any]:
        """Return what fitting chose or counted, such as the number of epochs, as JSON can hold it."""
        return {}

    def save_history(self, path: Path) -> None:  # noqa: B027 - most have none
        """Write the epochs of training, one JSON object a line; models without epochs write nothing."""


class ClassBaseline(Baseline):
    """A model of classes 0..C-1."""

    @abstractmethod
    def predict_proba(self, X: Inputs) -> Floats:
        """Return the class probabilities of each row, shape (rows, C)."""

    def ood_scores(self, X: Inputs) -> dict[str, Floats]:
        """Return scores that are high for rows unlike the training data, the main score first."""
        return {DOUBT: doubt(self.predict_proba(X))}

    def to_scale(self) -> "ClassBaseline":
        """Return the model to put a temperature on: a better epoch of its training if it kept one, else itself."""
        return self


class RealBaseline(Baseline):
    """A model of one real target."""

    @abstractmethod
    def predict_distribution(self, X: Inputs) -> Gaussian:
        """Return a Gaussian for each row."""


class Refined(Baseline):
    """A trained model with an addition that is fitted afterwards and leaves the model as it is."""

    network: Baseline

    @abstractmethod
    def refine(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels) -> None:
        """Fit the addition, with the rows that the model was trained with."""

    @abstractmethod
    def numbers(self) -> dict[str, float]:
        """Return the numbers that the addition learned."""

    def fit(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels, seed: int) -> None:
        """Train the model, then fit the addition."""
        self.network.checkpoint = self.checkpoint
        self.network.fit(X, y, X_held_out, y_held_out, seed)
        self.refine(X, y, X_held_out, y_held_out)

    def settings(self) -> dict[str, Any]:
        """Return the settings of the model; the addition has none."""
        return self.network.settings()

    def findings(self) -> dict[str, Any]:
        """Return the findings of the model and the numbers of the addition."""
        return {**self.network.findings(), **self.numbers()}

    def save_history(self, path: Path) -> None:
        """Write the history of the model."""
        self.network.save_history(path)


def doubt(probabilities: Floats) -> Floats:
    """Return 1 - the largest probability of each row, summed over the others to keep the digits of sure rows."""
    return np.sort(probabilities.astype(np.float64), axis=1)[:, :-1].sum(1)
