"""SV-DKL and its head alone, with default options.

Below 256 points an axis, S_d = L_d L_d^T with a dense triangular L_d, as in the paper. From there on L_d is banded,
since the paper's form has m_d^2 parameters.
"""

from typing import Any

import torch

from svdkl.gp.head import GPHead
from svdkl.model import SVDKL
from svdkl_research.bench.setting import CLASSES, NUM_DATA, Setting, random_labels, random_rows
from svdkl_research.bench.systems.network import airline_network
from svdkl_research.bench.systems.training_step import gradient_step, training_step
from svdkl_research.bench.timing import Step


def training(setting: Setting, **options: Any) -> Step:
    """Make a training step of network and head on the bound, with options of the head."""
    features = setting.features
    model = SVDKL(airline_network(features), features, CLASSES, **_lattice(setting), **options)
    x, y = random_rows(setting)
    model.set_ranges(x)
    return training_step(lambda: -model.elbo(x, y, num_data=NUM_DATA).value, model.parameters())


def training_with_dense_covariance(setting: Setting) -> Step:
    """Make a training step with the paper's dense S, however long the axis."""
    return training(setting, posterior="cholesky")


def head(setting: Setting) -> Step:
    """Make a step of the whole bound, KL included, and its gradient from given features, without an optimiser."""
    gps = GPHead(setting.features, CLASSES, **_lattice(setting))
    h, y = torch.randn(setting.rows, setting.features), random_labels(setting)
    gps.bounding.set_ranges(h)
    h.requires_grad_()
    return gradient_step(lambda: -gps.elbo(h, y, num_data=NUM_DATA).value, h, gps)


def _lattice(setting: Setting) -> dict[str, Any]:
    return {"dims_per_gp": setting.dims, "grid_size": setting.axis}
