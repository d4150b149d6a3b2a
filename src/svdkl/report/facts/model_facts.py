"""What was trained, with which options, by which versions, and how the model understands the table's columns."""

import platform
from dataclasses import dataclass, fields

import numpy as np
from torch import nn

from svdkl.errors import version_of
from svdkl.estimators.fitted import Fitted
from svdkl.gp.head import GPHead
from svdkl.tables.encoder import TabularEncoder
from svdkl.tables.schema import CategoryColumn, ColumnSchema, IgnoredColumn, encoding_in_words
from svdkl.tables.table import Table

PACKAGES = ("svdkl", "torch", "numpy", "scikit-learn", "matplotlib")
RECIPES = {
    "svdkl": "stochastic variational deep kernel learning: a network and Gaussian processes, trained jointly",
    "dnn_gp": "Gaussian processes on the features of a finished network",
    "dnn": "a plain network, without Gaussian processes",
    "dnn_plus": "a plain network with one more layer, without Gaussian processes",
}


def describe_model(fitted: Fitted) -> dict[str, str]:
    """Describe the model in a few lines."""
    model, given = fitted.model, fitted.options
    size = sum(parameter.numel() for parameter in model.parameters())
    facts = {"Model": RECIPES[given.recipe], "Parameters": f"{size:,}"}
    if given.net is not None:
        facts["Network"] = f"the user's own, {type(given.net).__name__}, with {fitted.num_features} features"
    else:
        hidden = " × ".join(str(width) for width in fitted.network["hidden"])
        facts["Network"] = f"layers of {hidden} units, {fitted.num_features} features"
    evidence = given.has_gps and has_evidence(model.gp_head)
    if given.has_gps:
        head = model.gp_head
        grids = sorted({" × ".join(map(str, bank.gps.grid.sizes)) for bank in head.gps.members()})
        facts["Gaussian processes"] = f"{len(head.gps.groups)}, each on a grid of {' or '.join(grids)} points"
        facts["Kernel"] = plain(given.kernel)
        facts["Held-out evidence"] = "yes" if evidence else "no"
    facts["Likelihood"] = type(model.head.likelihood).__name__
    facts["Training rows"] = f"{fitted.num_rows_seen:,}{', beside those that were held out' * evidence}"
    facts["Epochs"] = f"{len(fitted.history)}, in {sum(epoch.seconds for epoch in fitted.history):.1f} s"
    return facts


def has_evidence(head: GPHead) -> bool:
    """Whether held-out rows had the last word: they leave a prior around the function that was learned before."""
    return any(bool(bank.gps.centre.any()) for bank in head.gps.members())


def options(fitted: Fitted) -> dict[str, str]:
    """List all options that the task has, by name; options that differ from their default say so."""
    listed = {}
    for one in sorted(fields(fitted.options), key=lambda one: one.name):
        if one.metadata["task"] in ("", fitted.targets.task):
            value, usual = plain(getattr(fitted.options, one.name)), plain(one.default)
            listed[one.name] = value if value == usual else f"{value} (default {usual})"
    return listed


def versions() -> dict[str, str]:
    """Return the versions of the packages that wrote the report."""
    found = {package: version_of(package) for package in PACKAGES}
    return {"python": platform.python_version(), **{name: text for name, text in found.items() if text is not None}}


def plain(value: object) -> str:
    """Return a value as text: a module by its type, since it prints pages."""
    if isinstance(value, list | tuple):
        return ", ".join(plain(part) for part in value) or "none"
    if isinstance(value, dict):
        return "; ".join(f"{plain(name)}: {plain(part)}" for name, part in value.items()) or "none"
    return type(value).__name__ if isinstance(value, nn.Module) else str(value)


@dataclass(frozen=True)
class ColumnFacts:
    """One column: its kind, how it is encoded, and what is strange about its values in the test rows.

    Attributes
    ----------
    missing
        The share of test rows without a value.
    missing_known
        Whether training rows lacked values, too.
    unknown
        The share of test rows whose category was rare or absent in training; 0 for other kinds.
    """

    name: str
    kind: str
    encoding: str
    missing: float
    missing_known: bool
    unknown: float


def describe_columns(encoder: TabularEncoder, table: Table) -> list[ColumnFacts]:
    """Describe all columns of the rows in figures, in the order of the schema."""
    columns, by_name = encoder.schema.columns, encoder.schema.named and table.named
    places = {name: place for place, name in enumerate(table.names)}
    return [
        _describe(column, table, places.get(column.name) if by_name else place, encoder.max_onehot)
        for place, column in enumerate(columns)
    ]


def _describe(column: ColumnSchema, table: Table, place: int | None, max_onehot: int) -> ColumnFacts:
    encoding = encoding_in_words(column, max_onehot)
    if isinstance(column, IgnoredColumn) or place is None:
        return ColumnFacts(column.name, column.kind, encoding, 0.0, True, 0.0)
    given = table.column(place)
    missing = 0.0 if given.missing is None else float(given.missing.mean())
    unknown = 0.0
    if isinstance(column, CategoryColumn) and given.labels:
        trained = set(column.labels)
        known = np.array([*(name in trained for name in given.labels), True])  # the last one is for missing values
        unknown = float((~known[given.values]).mean())
    return ColumnFacts(column.name, column.kind, encoding, missing, column.missing, unknown)
