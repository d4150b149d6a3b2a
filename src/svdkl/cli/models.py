"""A saved model and its facts, without making ``--help`` wait for what reads them."""

from pathlib import Path
from typing import Any


def load_model(path: str | Path, net: str | None = None) -> Any:
    """See :func:`svdkl.estimators.loading.load_model`; ``net`` is MODULE:NAME of what makes the user's own network."""
    from svdkl.cli.networks import network_maker
    from svdkl.estimators import loading

    return loading.load_model(path, None if net is None else network_maker(net))


def read_facts(path: str | Path) -> dict[str, Any]:
    """See :func:`svdkl.estimators.loading.read_facts`."""
    from svdkl.estimators import loading

    return loading.read_facts(path)
