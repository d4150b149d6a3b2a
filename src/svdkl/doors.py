"""Lazy public names of packages, which are imported when somebody first asks for them."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def door(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package that imports each public name from its module on demand.

    ``homes`` maps each public name to the module that defines it. So a command's ``--help`` need not wait for torch and
    scikit-learn, which take seconds to import.
    """

    def public_name(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return public_name
