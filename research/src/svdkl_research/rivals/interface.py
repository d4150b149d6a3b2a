"""What a rival has to offer. All of them get the same rows to fit and the same validation rows, and no others."""

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
DOUBT = "doubt"  # the score that every model of classes has: how probable the other classes are


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
        A file, in a folder of its own, for models that keep the state of their training and go on from it.
    forks
        For a plain network: by the file of another model, the options of that one, which begins with the same epochs
        and is to go on from them there.
    """

    checkpoint: Path | None = None
    forks: Mapping[Path, Mapping[str, Any]] = MappingProxyType({})

    @abstractmethod
    def fit(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels, seed: int) -> None:
        """Fit to the rows; the held-out rows serve early stopping and whatever else the model chooses by them."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All settings that define the model, as JSON can hold them."""

    def findings(self) -> dict[str, Any]:
        """What fitting chose or counted, such as the number of epochs, as JSON can hold it."""
        return {}

    def save_history(self, path: Path) -> None:  # noqa: B027 - most have none
        """Write what happened in each epoch, one JSON object a line, if there is something to tell."""


class ClassBaseline(Baseline):
    """A model of classes 0..C-1."""

    @abstractmethod
    def predict_proba(self, X: Inputs) -> Floats:
        """Class probabilities (rows, C)."""

    def ood_scores(self, X: Inputs) -> dict[str, Floats]:
        """Scores that tell rows unlike the training data, the main one first; the higher, the further out."""
        return {DOUBT: doubt(self.predict_proba(X))}

    def to_scale(self) -> "ClassBaseline":
        """What a temperature is best put on: another epoch of the same training, where there is one; else itself."""
        return self


class RealBaseline(Baseline):
    """A model of one real target."""

    @abstractmethod
    def predict_distribution(self, X: Inputs) -> Gaussian:
        """A Gaussian for each row."""


class Refined(Baseline):
    """A trained model with something more, which is fitted after its training and leaves it as it is."""

    network: Baseline

    @abstractmethod
    def refine(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels) -> None:
        """Fit what comes on top, with the rows that the model was trained with."""

    @abstractmethod
    def numbers(self) -> dict[str, float]:
        """What that came to."""

    def fit(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels, seed: int) -> None:
        """Train the model, and refine it."""
        self.network.checkpoint = self.checkpoint
        self.network.fit(X, y, X_held_out, y_held_out, seed)
        self.refine(X, y, X_held_out, y_held_out)

    def settings(self) -> dict[str, Any]:
        """The model's: what comes on top has none."""
        return self.network.settings()

    def findings(self) -> dict[str, Any]:
        """What the model tells, and what came on top."""
        return {**self.network.findings(), **self.numbers()}

    def save_history(self, path: Path) -> None:
        """Write the model's."""
        self.network.save_history(path)


def doubt(probabilities: Floats) -> Floats:
    """1 - the largest probability of each row, as the sum of the others, which keeps the digits of sure rows."""
    return np.sort(probabilities.astype(np.float64), axis=1)[:, :-1].sum(1)
