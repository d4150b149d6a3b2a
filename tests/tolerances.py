"""One table of tolerances for all tests: how near two computations of the same number must be."""

import torch

TOLERANCES = {
    "float64": {"rtol": 1e-9, "atol": 1e-10},  # the same algebra in another order
    "jittered": {"rtol": 1e-6, "atol": 1e-8},  # through the inverse of a badly conditioned prior
    "float32": {"rtol": 1e-4, "atol": 1e-5},  # read off in single precision
    "quadrature": {"rtol": 1e-5, "atol": 1e-6},  # a smooth integral by few nodes
    "sampling": {"rtol": 0.0, "atol": 4e-3},  # an integral by 10^5 draws
    "start": {"rtol": 0.0, "atol": 1e-3},  # a head right after it has replaced a layer
}


def close(actual: torch.Tensor, expected: torch.Tensor, kind: str = "float64") -> None:
    """Assert that two tensors agree as closely as the table asks for."""
    torch.testing.assert_close(actual, expected, check_dtype=False, **TOLERANCES[kind])
