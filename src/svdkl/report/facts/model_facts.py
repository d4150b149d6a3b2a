"""What was trained, with which options, by which versions.

The columns of the table as the model understands them, and how those of the test rows differ.
"""

import platform
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from svdkl.errors import version_of
from svdkl.estimators.options import has_head
from svdkl.model import SVDKL
from svdkl.tables.encoder import TabularEncoder
from svdkl.tables.schema import CategoryColumn, ColumnSchema, IgnoredColumn, encoding_in_words
from svdkl.tables.table import Table, open_table

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
    if has_head(estimator):
        head = model.gp_head
        grids = sorted({" × ".join(map(str, bank.gps.grid.sizes)) for bank in head.gps.members()})
        facts["Gaussian processes"] = f"{len(head.gps.groups)}, each on a grid of {' or '.join(grids)} points"
        facts["Kernel"] = plain(estimator.kernel)
        facts["Held-out evidence"] = "yes" if has_evidence(model) else "no"
    facts["Likelihood"] = type(model.head.likelihood).__name__
    beside = ", beside those that were held out" if has_head(estimator) and has_evidence(model) else ""
    facts["Training rows"] = f"{estimator.num_rows_seen_:,}{beside}"
    facts["Epochs"] = f"{estimator.n_iter_}, in {sum(epoch.seconds for epoch in estimator.history_):.1f} s"
    return facts


def has_evidence(model: SVDKL) -> bool:
    """Whether held-out rows had the last word: they leave a prior around the function that was learned before."""
    return any(bool(bank.gps.centre.any()) for bank in model.gp_head.gps.members())


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


@dataclass(frozen=True)
class ColumnFacts:
    """One column: its kind, how it is encoded, and the shares of test rows without a value or with a strange one."""

    name: str
    kind: str
    encoding: str
    missing: float  # share of test rows
    missing_known: bool  # whether training rows had missing values too
    unknown: float  # share of test rows whose category is rare or new; 0 for other kinds


def describe_columns(encoder: TabularEncoder, X: Any) -> list[ColumnFacts]:
    """All columns in the order of the schema; X holds the rows of the figures."""
    table = open_table(X)
    places = _places(encoder, table)
    return [
        _describe(column, table, place, encoder.max_onehot) for column, place in zip(encoder.schema.columns, places)
    ]


def _places(encoder: TabularEncoder, table: Table) -> list[int | None]:
    columns = encoder.schema.columns
    if not (encoder.schema.named and table.named):
        return list(range(len(columns)))
    places = {name: place for place, name in enumerate(table.names)}
    return [places.get(column.name) for column in columns]


def _describe(column: ColumnSchema, table: Table, place: int | None, max_onehot: int) -> ColumnFacts:
    encoding = encoding_in_words(column, max_onehot)
    if isinstance(column, IgnoredColumn) or place is None:
        return ColumnFacts(column.name, column.kind, encoding, 0.0, True, 0.0)
    given = table.column(place)
    missing = 0.0 if given.missing is None else float(given.missing.mean())
    unknown = 0.0
    if isinstance(column, CategoryColumn) and given.labels:
        known = np.array([*(name in set(column.labels) for name in given.labels), True])
        unknown = float((~known[given.values]).mean())
    return ColumnFacts(column.name, column.kind, encoding, missing, column.missing, unknown)
