"""The systems to measure, by name. The library of a system is imported when the system is loaded."""

import importlib
from collections.abc import Callable
from importlib.util import find_spec
from typing import NamedTuple

from svdkl_research.bench.setting import Setting
from svdkl_research.bench.timing import Step


class System(NamedTuple):
    """A system whose step can be timed.

    Attributes
    ----------
    place
        Module in this package and its function that makes a step for a setting, with a colon between them.
    packages
        Names of the packages that it needs beside svdkl, as Python imports them.
    """

    title: str
    place: str
    packages: tuple[str, ...] = ()

    def load(self) -> Callable[[Setting], Step]:
        """Import and return the function that makes a step for a setting."""
        module, function = self.place.split(":")
        return getattr(importlib.import_module(f"{__name__}.{module}"), function)

    def missing(self) -> list[str]:
        """List the packages that the system needs and that are not installed."""
        return [name for name in self.packages if find_spec(name) is None]


SYSTEMS = {
    "network": System("network alone", "network:training"),
    "svdkl": System("SV-DKL", "svdkl_model:training"),
    "svdkl_cholesky": System("SV-DKL, dense S", "svdkl_model:training_with_dense_covariance"),
    "gpytorch": System("gpytorch SV-DKL", "gpytorch_svdkl:training", ("gpytorch",)),
    "klsp_gp": System("KLSP-GP", "klsp_gp:training", ("gpytorch",)),
    "mc_gp": System("MC-GP", "mc_gp:sampling", ("pyro",)),
    "tanh": System("tanh", "network:activation"),
    "svdkl_head": System("SV-DKL, head alone", "svdkl_model:head"),
    "gpytorch_head": System("gpytorch, head alone", "gpytorch_svdkl:head", ("gpytorch",)),
    "import_torch": System("import torch", "imports:torch_alone"),
    "import_svdkl": System("import torch, svdkl", "imports:with_package"),
    "import_model": System("import torch; from svdkl import SVDKL", "imports:with_model"),
}
