"""How a draw of u and the KL grow with the number of inducing points m, and the memory of a large step.

    python benchmarks/scaling.py

The paper promises O(m^(1 + 1/D)) for a draw and O(D m^(3/D)) for the KL, with Kronecker factors. Fitted are the
exponents of time against m over the larger lattices, where the growth shows through the fixed cost of a call.
"""

import math
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from measure import save

from svdkl import GPHead
from svdkl.inducing.gps import GridGPs
from svdkl.inducing.prior import Prior

LATTICES = {
    "sample": {1: (1000, 2000, 4000, 8000), 2: (100, 200, 400, 800), 3: (32, 48, 72, 108)},
    "kl": {1: (500, 1000, 2000, 4000), 2: (100, 200, 400, 800), 3: (32, 48, 72, 108)},
}
PROMISED = {"sample": lambda d: 1 + 1 / d, "kl": lambda d: max(3 / d, 1.0)}  # the mean alone makes a KL O(m)


def median_seconds(function: Callable[[], object], repeats: int) -> float:
    function()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def exponent(m: list[int], seconds: list[float]) -> float:
    """Slope of log time against log m by least squares."""
    x, y = [math.log(v) for v in m], [math.log(v) for v in seconds]
    mean_x, mean_y = statistics.mean(x), statistics.mean(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def growth(quantity: str, num_dims: int, repeats: int = 7) -> dict[str, Any]:
    """Times of a draw or of the KL in the paper's own form: dense factors, direct parameterisation."""
    points, seconds = [], []
    for size in LATTICES[quantity][num_dims]:
        gps = GridGPs(1, (size,) * num_dims, whitened=False, prior="toeplitz", kernel="matern32")
        points.append(gps.grid.num_points)
        with torch.no_grad():
            if quantity == "kl":
                seconds.append(median_seconds(lambda g=gps: g.kl(g.prior()), repeats))
            else:
                unused = Prior(())  # a posterior that is not whitened needs none
                seconds.append(median_seconds(lambda g=gps, p=unused: g.sample(p, 1, torch.float32), repeats))
    return {
        "m": points,
        "seconds": seconds,
        "exponent": exponent(points, seconds),
        "promised": PROMISED[quantity](num_dims),
    }


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


def main() -> None:
    torch.manual_seed(0)
    result: dict[str, object] = {}
    print("time against m, one GP, dense factors: fitted exponents (and what the paper promises)")
    for quantity, by_dims in LATTICES.items():
        for num_dims in by_dims:
            row = growth(quantity, num_dims)
            result[f"{quantity} D={num_dims}"] = row
            print(
                f"{quantity:6s} D = {num_dims}, m = {row['m'][0]} ... {row['m'][-1]}: m^{row['exponent']:.2f} "
                f"({row['promised']:.2f})"
            )
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
