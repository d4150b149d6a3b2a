"""The choice of the code that computes marginals: tensor operations, compiled loops for CPUs, or Triton for GPUs.

All give the same numbers. Compiled ones are loaded at their first use.
"""

import os
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import torch

from svdkl.gp.interpolation import MeanAndVariance, Roots, eager_marginals
from svdkl.shapes import Float, Tensor

MOST_DIMS = 3  # compiled loops are written out for D = 1, 2, 3; a lattice of more axes is rarely affordable


def _cpu_marginals(values: Float[Tensor, "J ..."], roots: Roots, positions: Float[Tensor, "B J D"]) -> MeanAndVariance:
    if len(roots) == 1:
        from svdkl.gp.fast.line_loops import CPULineMarginals

        return CPULineMarginals.apply(values, positions, *roots)
    from svdkl.gp.fast.lattice_marginals import CPULatticeMarginals

    return CPULatticeMarginals.apply(values, positions, *roots)


def _triton_marginals(
    values: Float[Tensor, "J ..."], roots: Roots, positions: Float[Tensor, "B J D"]
) -> MeanAndVariance:
    from svdkl.gp.fast.triton_kernels import TritonMarginals

    return TritonMarginals.apply(values, positions, *roots)


BACKENDS: dict[str, Callable[..., MeanAndVariance]] = {
    "eager": eager_marginals,
    "cpu": _cpu_marginals,
    "triton": _triton_marginals,
}
CHOICES = ("auto", *BACKENDS)


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def require_backend(name: str) -> None:
    """Refuse a backend that is unknown or cannot be loaded here."""
    if name not in CHOICES:
        raise ValueError(f"Expected interpolation to be one of {', '.join(CHOICES)}, got {name!r}.")
    if name == "triton" and not _has_triton():
        raise ValueError("Expected triton to be installed for interpolation='triton': use 'auto', or install triton.")


def marginals(
    values: Float[Tensor, "J ..."], roots: Roots, positions: Float[Tensor, "B J D"], backend: str = "auto"
) -> MeanAndVariance:
    """Compute means and variances of f at positions in grid points, (B, J) each.

    ``values`` are the means on the lattice, ``roots`` four cubics a cell for each axis, whose squares add up to the
    variance. ``backend`` is "eager", "cpu", "triton", or "auto": the fastest on the tensors' device. Traced code is
    always eager.
    """
    if torch.compiler.is_compiling():
        return eager_marginals(values, roots, positions)
    if backend == "auto":
        backend = _fastest(positions)
    else:
        require_backend(backend)
        _require_fit(backend, positions)
    return BACKENDS[backend](values, roots, positions)


def _fastest(positions: Float[Tensor, "B J D"]) -> str:
    if positions.shape[-1] > MOST_DIMS:
        return "eager"
    if positions.device.type == "cuda":
        return "triton" if _has_triton() else "eager"
    return "cpu" if positions.device.type == "cpu" else "eager"


def _require_fit(backend: str, positions: Float[Tensor, "B J D"]) -> None:
    if backend == "eager":
        return
    device = positions.device.type
    # Triton's interpreter runs the same kernel without a GPU, slowly: for tests.
    interpreted = backend == "triton" and device == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"
    needed = "cuda" if backend == "triton" else "cpu"
    if device != needed and not interpreted:
        raise ValueError(
            f"Expected tensors on {needed} for interpolation={backend!r}, got {device}: use 'auto', or move the model."
        )
    if positions.shape[-1] > MOST_DIMS:
        raise ValueError(
            f"Expected GPs of at most {MOST_DIMS} dimensions for interpolation={backend!r}, got "
            f"{positions.shape[-1]}: use 'auto' or 'eager'."
        )
