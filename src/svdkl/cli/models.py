"""A saved model and its facts, without making ``--help`` wait for what reads them."""

from pathlib import Path
from typing import Any


def load_model(path: str | Path, net: str | None = None) -> Any:
    """The fitted model in a folder; ``net`` is MODULE:NAME of what makes the user's own network."""
    from svdkl.cli.networks import network_maker
    from svdkl.estimators.loading import load_model as load

    return load(path, None if net is None else network_maker(net))


def read_facts(path: str | Path) -> dict[str, Any]:
    """What the run that trained a model wrote down."""
    from svdkl.estimators.loading import read_facts as read

    return read(path)
