"""Handwritten digits: a network, and the same network with Gaussian processes, at equal budgets.

    python examples/digits.py

A network is trained for 20 epochs. Then one copy goes on as it is, and in another ``replace_classifier`` swaps the last
layer for Gaussian processes. Both get 20 more epochs of the same batches and rates. The data are scikit-learn's 1,797
digits.
"""

import copy
import time
from collections.abc import Callable

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from svdkl import replace_classifier
from svdkl.metrics import accuracy, expected_calibration_error, negative_log_probability

BATCH = 128
EPOCHS = 20


def train(module: nn.Module, loss: Callable, x: torch.Tensor, y: torch.Tensor, seed: int) -> float:
    """Train with Adam and a cosine schedule, and return the seconds that it took."""
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(module.parameters(), lr=2e-3)
    steps = EPOCHS * -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    start = time.perf_counter()
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x), generator=generator).split(BATCH):
            optimiser.zero_grad()
            loss(x[rows], y[rows]).backward()
            optimiser.step()
            schedule.step()
    return time.perf_counter() - start


def report(name: str, probabilities: torch.Tensor, labels: torch.Tensor, seconds: float) -> None:
    """Print a line of scores."""
    p, y = probabilities.detach().numpy(), labels.numpy()
    print(
        f"{name:34s} {accuracy(p, y):8.4f} {negative_log_probability(p, y):8.4f} "
        f"{expected_calibration_error(p, y):8.4f} {seconds:8.1f} s"
    )


def main() -> None:
    """Train both models and print their scores on the test digits."""
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    split = train_test_split(images / 16.0, labels, test_size=0.4, stratify=labels, random_state=0)
    x, x_test = (torch.tensor(part, dtype=torch.float32) for part in split[:2])
    y, y_test = (torch.tensor(part) for part in split[2:])

    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 50), nn.ReLU(), nn.Linear(50, 10))
    pretraining = train(net, lambda a, b: nn.functional.cross_entropy(net(a), b), x, y, seed=0)

    longer = copy.deepcopy(net)
    plain = train(longer, lambda a, b: nn.functional.cross_entropy(longer(a), b), x, y, seed=1)

    model = replace_classifier(net, x)
    difference = float((model.predict_proba(x_test) - net(x_test).softmax(-1)).abs().max().detach())
    joint = train(model, lambda a, b: -model.elbo(a, b, num_data=len(x)).value, x, y, seed=1)

    print(f"digits: {len(x)} rows to train on, {len(x_test)} to test on; network 64-256-50-10, 2 x {EPOCHS} epochs")
    print(f"{'':34s} {'accuracy':>8s} {'NLP':>8s} {'ECE':>8s} {'training':>10s}")
    report("network, half the budget", net(x_test).softmax(-1), y_test, pretraining)
    report("network, the whole budget", longer(x_test).softmax(-1), y_test, pretraining + plain)
    report("network with a GP head (SV-DKL)", model.predict_proba(x_test), y_test, pretraining + joint)
    print(f"the swap itself moved no probability by more than {difference:.1e}")


if __name__ == "__main__":
    main()
