"""The mean of several networks that differ in their seed (Lakshminarayanan et al., 2017)."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import entr

from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.interface import (
    DOUBT,
    Baseline,
    ClassBaseline,
    Floats,
    Gaussian,
    Labels,
    RealBaseline,
    doubt,
)

MEMBERS = 5
SEEDS_APART = 1000  # between members: larger than any seed of a suite, so that no two ensembles share a member


def _of_member(checkpoint: Path | None, number: int) -> Path | None:
    """Return the checkpoint of a member, in a folder of its own."""
    return None if checkpoint is None else checkpoint.parent / f"member{number}" / checkpoint.name


class _Ensemble:
    """Settings, findings and histories of an ensemble's members."""

    members: Sequence[Baseline]

    def settings(self) -> dict[str, Any]:
        """Return the number of members and the settings that they share."""
        return {"members": len(self.members), "member": self.members[0].settings()}

    def findings(self) -> dict[str, Any]:
        """Return the findings of each member."""
        return {"members": [member.findings() for member in self.members]}

    def save_history(self, path: Path) -> None:
        """Write the history of each member into a file of its own."""
        for number, member in enumerate(self.members):
            member.save_history(path.with_stem(f"{path.stem}-member{number}"))


class EnsembleClassifier(_Ensemble, ClassBaseline):
    """Several networks, with the mean of their class probabilities."""

    def __init__(self, make: Callable[[], ClassBaseline], members: int = MEMBERS) -> None:
        self.members: list[ClassBaseline] = [make() for _ in range(members)]

    def fit(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels, seed: int) -> None:
        """Train one member after the other on the same rows."""
        for number, member in enumerate(self.members):
            member.checkpoint = _of_member(self.checkpoint, number)
            member.fit(X, y, X_held_out, y_held_out, seed + SEEDS_APART * number)

    def predict_proba(self, X: Inputs) -> Floats:
        """Return the class probabilities of each row, shape (rows, C)."""
        return np.mean([member.predict_proba(X) for member in self.members], axis=0)

    def ood_scores(self, X: Inputs) -> dict[str, Floats]:
        """Return the doubt, the entropy of the mean probabilities, and the members' disagreement, a part of it."""
        members = np.stack([member.predict_proba(X) for member in self.members])
        p = members.mean(0)
        total = entr(p).sum(1)
        return {DOUBT: doubt(p), "total": total, "epistemic": total - entr(members).sum(2).mean(0)}


class EnsembleRegressor(_Ensemble, RealBaseline):
    """Several networks, with the mean and variance of the mixture of their Gaussians."""

    def __init__(self, make: Callable[[], RealBaseline], members: int = MEMBERS) -> None:
        self.members: list[RealBaseline] = [make() for _ in range(members)]

    def fit(self, X: pa.Table, y: Labels, X_held_out: pa.Table, y_held_out: Labels, seed: int) -> None:
        """Train one member after the other on the same rows."""
        for number, member in enumerate(self.members):
            member.checkpoint = _of_member(self.checkpoint, number)
            member.fit(X, y, X_held_out, y_held_out, seed + SEEDS_APART * number)

    def predict_distribution(self, X: pa.Table) -> Gaussian:
        """Return mean and standard deviation of the mixture."""
        parts = [member.predict_distribution(X) for member in self.members]
        means = np.stack([part.mean for part in parts])
        # Law of total variance: mean of the variances plus variance of the means.
        variance = np.mean([part.std**2 for part in parts], axis=0) + means.var(0)
        return Gaussian(means.mean(0), np.sqrt(variance))
