"""SV-DKL, and its head alone, as they are when nothing is said.

Below 256 points an axis S_d = L_d L_d^T with any triangular L_d, as in the paper; from there on L_d is banded, since
the paper's form has m_d^2 parameters.
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
    """The bound's step, network included; options are the head's."""
    features = setting.features
    model = SVDKL(airline_network(features), features, CLASSES, **_lattice(setting), **options)
    x, y = random_rows(setting)
    model.set_ranges(x)
    return training_step(lambda: -model.elbo(x, y, num_data=NUM_DATA).value, model.parameters())


def training_with_dense_covariance(setting: Setting) -> Step:
    """The same with the paper's own S, however long the axis."""
    return training(setting, posterior="cholesky")


def head(setting: Setting) -> Step:
    """The whole bound, KL included, from features that are given; without a step of an optimiser."""
    gp_head = GPHead(setting.features, CLASSES, **_lattice(setting))
    h, y = torch.randn(setting.rows, setting.features), random_labels(setting)
    gp_head.gps.bounding.set_ranges(h)
    h.requires_grad_()
    return gradient_step(lambda: -gp_head.elbo(h, y, num_data=NUM_DATA).value, h, gp_head)


def _lattice(setting: Setting) -> dict[str, Any]:
    return {"dims_per_gp": setting.dims, "grid_size": setting.axis}
