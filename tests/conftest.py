"""Every test runs with the shapes in the package's signatures checked, and with a seed of its own."""

import os

import pytest

if "SVDKL_UNCHECKED_SHAPES" not in os.environ:
    from jaxtyping import install_import_hook

    install_import_hook(["svdkl", "svdkl_research"], "beartype.beartype")

import torch
from hypothesis import HealthCheck, Phase, settings

# Seeds stand for all random numbers of a case, so there is nothing to shrink.
settings.register_profile(
    "svdkl",
    deadline=None,
    max_examples=15,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
settings.load_profile("svdkl")

torch.set_num_threads(1)  # pytest-xdist runs one process a core


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(20161101)
