"""Two moons: a network is sure of itself everywhere, and its Gaussian processes know where it has seen data.

    python examples/moons.py              # writes docs/images/moons.png in a few seconds
    python examples/moons.py moons.svg

A small network learns two classes of points. ``replace_classifier`` then swaps its last layer for Gaussian processes,
and both models are asked about every place of the plane. The white line encloses the places whose ``ood_score`` is
below that of 99 of 100 training points.

The network begins with fixed waves. They keep the place of a point visible in the features, and ``ood_score`` sees
nothing but features.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import make_moons
from torch import Tensor, nn

from svdkl import SVDKL, replace_classifier

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "moons.png"
LEFT, RIGHT, BOTTOM, TOP = -3.0, 4.0, -2.7, 3.2
SIDE = 120  # places along each axis
ACROSS_AND_UP = np.meshgrid(np.linspace(LEFT, RIGHT, SIDE), np.linspace(BOTTOM, TOP, SIDE))
SHARE_INSIDE = 0.99  # of the training points


class Waves(nn.Module):
    """Waves in random directions, never trained: a random Fourier basis of the plane."""

    def __init__(self, num_waves: int, frequency: float) -> None:
        super().__init__()
        self.register_buffer("directions", frequency * torch.randn(2, num_waves))
        self.register_buffer("shifts", 2 * torch.pi * torch.rand(num_waves))

    def forward(self, x: Tensor) -> Tensor:
        """Compute the height of each wave at each point."""
        return (x @ self.directions + self.shifts).cos()


def train(module: nn.Module, loss: Callable[[], Tensor], steps: int) -> None:
    """Take so many steps of Adam."""
    optimiser = torch.optim.Adam(module.parameters(), lr=3e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()


def train_both(x: Tensor, y: Tensor) -> tuple[nn.Module, SVDKL]:
    """Train a network, and then the same network with a Gaussian process head."""
    net = nn.Sequential(Waves(64, frequency=0.6), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    train(net, lambda: nn.functional.cross_entropy(net(x), y), steps=300)
    model = replace_classifier(net, x)
    train(model, lambda: -model.elbo(x, y, num_data=len(x)).value, steps=100)
    model.eval().remember(x[torch.randperm(len(x))])
    return net.eval(), model


def draw(axes: Axes, values: Tensor, least: float, colours: str, title: str, scale: str) -> None:
    """Draw a quantity between ``least`` and 1 over the plane."""
    levels = np.linspace(least, 1, 26)
    areas = axes.contourf(*ACROSS_AND_UP, values.reshape(SIDE, SIDE).numpy(), levels=levels, cmap=colours)
    axes.set(title=title, xticks=[], yticks=[])
    axes.figure.colorbar(areas, ax=axes, label=scale, pad=0.02, ticks=np.linspace(least, 1, 6))


def scatter(axes: Axes, points: Tensor, labels: Tensor) -> None:
    """Draw the training points of both classes."""
    for label, colour in ((0, "#ff9f6b"), (1, "#f7f7f7")):
        axes.scatter(*points[labels == label].T.numpy(), s=9, color=colour, edgecolors="black", linewidths=0.3)


def main(path: Path = PICTURE) -> None:
    """Train both models, ask them about the plane, and draw what they say."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # batches are so small that threads would only wait for each other
    moons, classes = make_moons(500, noise=0.12, random_state=0)
    x, y = torch.tensor(moons, dtype=torch.float32), torch.tensor(classes)
    net, model = train_both(x, y)

    plane = torch.tensor(np.stack(ACROSS_AND_UP, -1).reshape(-1, 2), dtype=torch.float32)
    with torch.no_grad():
        confidence = net(plane).softmax(1).amax(1)
        score = model.uncertainty(plane).ood_score
        limit = float(model.head.usual_scores().quantile(SHARE_INSIDE))

    figure = Figure(figsize=(9.6, 3.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw(left, confidence, 0.5, "viridis", "A network is sure of places it has never seen", "largest class probability")
    draw(right, score, 0.0, "inferno", "Its Gaussian processes know that they are strange", "ood_score")
    scatter(left, x, y)
    scatter(right, x, y)
    right.contour(*ACROSS_AND_UP, score.reshape(SIDE, SIDE).numpy(), levels=[limit], colors="white", linewidths=1.5)
    right.text(-0.75, 1.75, "99 % of the data", color="white", fontsize=9)
    figure.savefig(path, dpi=130)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
