"""A saved model and its facts, without making ``--help`` wait for what reads them."""

from pathlib import Path
from typing import Any


def load_model(path: str | Path) -> Any:
    """See :func:`svdkl.estimators.loading.load_model`."""
    from svdkl.estimators import loading

    return loading.load_model(path)


def read_facts(path: str | Path) -> dict[str, Any]:
    """See :func:`svdkl.estimators.loading.read_facts`."""
    from svdkl.estimators import loading

    return loading.read_facts(path)
