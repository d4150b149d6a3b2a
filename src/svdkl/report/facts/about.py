"""What was trained, with which options, by which versions."""

import platform
from typing import Any

from torch import nn

from svdkl.model import SVDKL
from svdkl.versions import version_of

PACKAGES = ("svdkl", "torch", "numpy", "scikit-learn", "matplotlib")
RECIPES = {
    "svdkl": "stochastic variational deep kernel learning: a network and Gaussian processes, trained jointly",
    "dnn_gp": "Gaussian processes on the features of a finished network",
    "dnn": "a plain network, without Gaussian processes",
    "dnn_plus": "a plain network with one more layer, without Gaussian processes",
}


def describe_model(estimator: Any) -> dict[str, str]:
    """The model in a few lines."""
    model = estimator.model_
    size = sum(parameter.numel() for parameter in model.parameters())
    facts = {"Model": RECIPES[estimator.recipe], "Parameters": f"{size:,}"}
    if estimator.net is not None:
        facts["Network"] = f"the user's own, {type(estimator.net).__name__}, with {estimator.num_features_} features"
    else:
        hidden = " × ".join(str(width) for width in estimator.network_options_["hidden"])
        facts["Network"] = f"layers of {hidden} units, {estimator.num_features_} features"
    if isinstance(model, SVDKL):
        head = model.head
        grids = sorted({" × ".join(map(str, bank.gps.grid.sizes)) for bank in head.members()})
        facts["Gaussian processes"] = f"{len(head.groups)}, each on a grid of {' or '.join(grids)} points"
        facts["Kernel"] = plain(estimator.kernel)
        facts["Held-out evidence"] = "yes" if has_evidence(model) else "no"
    facts["Likelihood"] = type(model.head.likelihood if isinstance(model, SVDKL) else model.likelihood).__name__
    beside = ", beside those that were held out" if has_evidence(model) else ""
    facts["Training rows"] = f"{estimator.num_rows_seen_:,}{beside}"
    facts["Epochs"] = f"{estimator.n_iter_}, in {sum(epoch.seconds for epoch in estimator.history_):.1f} s"
    return facts


def has_evidence(model: Any) -> bool:
    """Whether held-out rows had the last word: they leave a prior around the function that was learned before."""
    return isinstance(model, SVDKL) and any(bool(bank.gps.centre.any()) for bank in model.head.members())


def options(estimator: Any) -> dict[str, str]:
    """All arguments of the estimator; those that are not the default say so."""
    usual = type(estimator)().get_params(deep=False)
    given = estimator.get_params(deep=False)
    return {
        name: plain(value) + ("" if plain(value) == plain(usual[name]) else f" (default {plain(usual[name])})")
        for name, value in given.items()
    }


def versions() -> dict[str, str]:
    """Of what wrote the report."""
    found = {package: version_of(package) for package in PACKAGES}
    return {"python": platform.python_version(), **{name: text for name, text in found.items() if text is not None}}


def plain(value: Any) -> str:
    """A value as text: modules by their type, since what they print is pages long."""
    if isinstance(value, list | tuple):
        return ", ".join(plain(part) for part in value) or "none"
    if isinstance(value, dict):
        return "; ".join(f"{plain(name)}: {plain(part)}" for name, part in value.items()) or "none"
    return type(value).__name__ if isinstance(value, nn.Module) else str(value)
