"""How a draw of u, the KL and the marginals grow with the number of inducing points m, and the memory of a large step.

    python benchmarks/scaling.py

The paper promises O(m^(1 + 1/D)) for a draw and O(D m^(3/D)) for the KL, with Kronecker factors. On one long axis the
default is a circulant prior and a banded posterior, with which all is O(m log m). Fitted are the exponents of time
against m over the larger lattices, where the growth shows through the fixed cost of a call.
"""

import math
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from measure import save
from torch import Tensor

from svdkl import GPHead
from svdkl.gp.lattice_gps import LatticeGPs
from svdkl.gp.prior import Prior

LATTICES = {
    "sample": {1: (1000, 2000, 4000, 8000), 2: (100, 200, 400, 800), 3: (32, 48, 72, 108)},
    "kl": {1: (500, 1000, 2000, 4000), 2: (100, 200, 400, 800), 3: (32, 48, 72, 108)},
}
PROMISED = {"sample": lambda d: 1 + 1 / d, "kl": lambda d: max(3 / d, 1.0)}  # the mean alone makes a KL O(m)
PAPER = {"posterior": "cholesky", "whitened": False, "prior": "toeplitz", "kernel": "matern32"}
LONG_AXES = (12_500, 25_000, 50_000, 100_000)


def median_seconds(function: Callable[[], object], repeats: int) -> float:
    function()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def exponent(m: Sequence[int], seconds: Sequence[float]) -> float:
    """Slope of log time against log m by least squares."""
    x, y = [math.log(v) for v in m], [math.log(v) for v in seconds]
    mean_x, mean_y = statistics.mean(x), statistics.mean(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def draw(gps: LatticeGPs) -> Tensor:
    prior = gps.prior() if gps.posterior.whitened else Prior(())  # a posterior that is not whitened needs none
    return gps.sample(prior, 1, torch.float32)


def kl_and_marginals(gps: LatticeGPs) -> None:
    """What a step of training computes of the lattice, forward and back."""
    prior = gps.prior()
    tables = gps.tables(prior, torch.float32)
    total = gps.kl(prior).sum() + tables.mean.square().sum() + tables.roots[0].square().sum()
    torch.autograd.grad(total, list(gps.parameters()))


QUANTITIES: dict[str, Callable[[LatticeGPs], object]] = {
    "sample": torch.no_grad()(draw),
    "kl": torch.no_grad()(lambda gps: gps.kl(gps.prior())),
    "kl and marginals, with gradients": kl_and_marginals,
}


def growth(
    quantity: str, num_dims: int, sizes: Sequence[int], promised: float, repeats: int = 7, **options: Any
) -> dict[str, Any]:
    """Times of a quantity of one GP on lattices of these sizes."""
    points, seconds = [], []
    for size in sizes:
        gps = LatticeGPs(1, (size,) * num_dims, **options)
        points.append(math.prod(gps.grid.sizes))
        seconds.append(median_seconds(lambda g=gps: QUANTITIES[quantity](g), repeats))
    return {"m": points, "seconds": seconds, "exponent": exponent(points, seconds), "promised": promised}


def peak_memory_of_a_step() -> float:
    """GiB at the peak of one step at D = 3, 32 points an axis, J = 4, B = 10,000, in a process of its own."""
    command = [sys.executable, __file__, "--one-large-step"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def one_large_step() -> None:
    head = GPHead(12, 2, dims_per_gp=3, grid_size=32)
    optimiser = torch.optim.Adam(head.parameters())
    h, y = torch.randn(10_000, 12, requires_grad=True), torch.randint(2, (10_000,))
    for _ in range(2):
        optimiser.zero_grad()
        (-head.elbo(h, y, num_data=1_000_000).value).backward()
        optimiser.step()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def described(row: dict[str, Any]) -> str:
    return f"m = {row['m'][0]} ... {row['m'][-1]}: m^{row['exponent']:.2f} ({row['promised']:.2f})"


def main() -> None:
    torch.manual_seed(0)
    result: dict[str, object] = {}
    print("time against m, one GP, dense factors: fitted exponents (and what the paper promises)")
    for quantity, by_dims in LATTICES.items():
        for num_dims, sizes in by_dims.items():
            row = growth(quantity, num_dims, sizes, PROMISED[quantity](num_dims), **PAPER)
            result[f"{quantity} D={num_dims}"] = row
            print(f"{quantity:6s} D = {num_dims}, {described(row)}")
    print("the same by default on a long axis (and m log m)")
    for quantity in QUANTITIES:
        row = growth(quantity, 1, LONG_AXES, exponent(LONG_AXES, [m * math.log(m) for m in LONG_AXES]))
        result[f"{quantity}, long axis"] = row
        print(f"{quantity}, {described(row)}")
    peak = peak_memory_of_a_step()
    result["peak_gib"] = peak
    print(
        f"peak memory of a step at D = 3, m = 32,768, J = 4, B = 10,000: {peak:.2f} GiB, interpreter included (limit 2)"
    )
    save("scaling", result)


if __name__ == "__main__":
    if "--one-large-step" in sys.argv:
        one_large_step()
    else:
        main()
