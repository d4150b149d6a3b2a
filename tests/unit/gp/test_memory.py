"""What "auto" takes on long axes, and that nothing of the size of a matrix is formed there, by any way in."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from svdkl import SVDKL, GPHead
from svdkl.gp.lattice_gps import LatticeGPs
from svdkl.gp.posterior import family_of_axis
from svdkl.gp.prior import LONG_AXIS
from svdkl.training.batches import Rows
from svdkl.training.config import EvidenceConfig, TrainingConfig
from svdkl.training.evidence import fit_held_out_evidence
from svdkl.training.warm_start import start_from_linear

M, J, B = 10_000, 1, 12
NUMBERS_A_POINT = 24  # of the largest tensor: five cubics of four coefficients for each cell, and ghost points


class NoneLarger(TorchDispatchMode):
    """Stops at the first operation that gives a tensor of more elements than allowed, views included."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.numel() > self.limit:
                raise AssertionError(f"{func} gave a tensor of shape {tuple(leaf.shape)}")
        return result


def model(**options: Any) -> SVDKL:
    return SVDKL(torch.nn.Linear(3, J), J, 2, grid_size=M, **options)


def data(num_rows: int = B) -> Rows:
    return Rows(torch.randn(num_rows, 3), torch.arange(num_rows) % 2, None)


def step(**options: Any) -> None:
    rows, svdkl = data(), model(**options)
    (-svdkl.elbo(rows.x, rows.y, num_data=100).value).backward()


def predictions() -> None:
    rows, svdkl = data(), model()
    svdkl.predict_proba(rows.x)
    svdkl.log_predictive(rows.x, rows.y)
    svdkl.uncertainty(rows.x)  # ood_score included
    svdkl.head.gps.sample_functions(svdkl.net(rows.x), num_samples=3)


def covariances() -> None:
    rows, svdkl = data(), model()
    svdkl.kernel_matrix(rows.x, rows.x[:3], gp=0)
    svdkl.latent_covariance(rows.x, rows.x[:3], gp=0).sum().backward()


def warm_start() -> None:
    svdkl = model()
    start_from_linear(svdkl.head, torch.randn(B, J), torch.randn(2, J), torch.zeros(2))


def evidence() -> None:
    fit_held_out_evidence(
        model(), data(), TrainingConfig(evidence_config=EvidenceConfig(steps=2)), torch.Generator().manual_seed(0)
    )


WAYS: dict[str, Callable[[], object]] = {
    "step": step,
    "step with joint samples": lambda: step(estimator="joint"),
    "step, direct": lambda: step(whitened=False),
    "step, mean field": lambda: step(posterior="mean_field"),
    "predictions": predictions,
    "covariances": covariances,
    "warm start": warm_start,
    "held-out evidence": evidence,
}


@pytest.mark.parametrize("way", WAYS)
def test_no_matrix_is_formed(way: str) -> None:
    with NoneLarger(NUMBERS_A_POINT * J * M):
        WAYS[way]()


def test_the_test_sees_a_matrix() -> None:
    with NoneLarger(300 * 300):
        GPHead(1, 2, grid_size=300, posterior="cholesky")
    with NoneLarger(300 * 300 - 1), pytest.raises(AssertionError, match="300, 300"):
        GPHead(1, 2, grid_size=300, posterior="cholesky")


def test_auto_goes_by_the_points_of_each_axis() -> None:
    assert family_of_axis("auto", LONG_AXIS - 1) == "cholesky"
    assert family_of_axis("auto", LONG_AXIS) == "banded"
    assert family_of_axis("cholesky", 10 * LONG_AXIS) == "cholesky"
    names = [type(factor).__name__ for factor in LatticeGPs(1, (LONG_AXIS, 16)).posterior.axes]
    assert names == ["BandedFactor", "CholeskyFactor"]


def test_short_axes_of_a_large_lattice_keep_cholesky_factors() -> None:
    with NoneLarger(48**3):  # ghost points included
        head = GPHead(3, 2, dims_per_gp=3, grid_size=46)
        (-head.elbo(torch.randn(B, 3), torch.arange(B) % 2, num_data=100).value).backward()
    assert {type(factor).__name__ for factor in head.gps.members()[0].gps.posterior.axes} == {"CholeskyFactor"}


def test_a_state_of_the_family_that_auto_stands_for_fits() -> None:
    """So a model that was saved before there was a choice to make loads into one that made it."""
    for size, family in ((16, "cholesky"), (LONG_AXIS, "banded")):
        GPHead(2, 2, grid_size=size).load_state_dict(GPHead(2, 2, grid_size=size, posterior=family).state_dict())
