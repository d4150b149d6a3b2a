"""replace_classifier on trained networks of many shapes: the model starts equal to the network and trains on."""

import copy
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import pytest
import torch
from sklearn.datasets import load_digits
from tolerances import close
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy, cross_entropy, nll_loss

from svdkl import SVDKL, replace_classifier

STEPS, TRAINING_ROWS = 60, 600


class Rows(NamedTuple):
    """Digits: the rows that a network is trained on and swapped with, and others."""

    x: Tensor
    y: Tensor
    held_out: Tensor


@cache
def digits() -> Rows:
    bunch = load_digits()
    x, y = torch.tensor(bunch.data).float() / 16, torch.tensor(bunch.target).long()
    return Rows(x[:TRAINING_ROWS], y[:TRAINING_ROWS], x[TRAINING_ROWS:])


class Fc(nn.Module):
    """The last layer is an attribute, as of torchvision's residual networks."""

    def __init__(self, activation: Callable[[Tensor], Tensor], num_outputs: int = 10, bias: bool = True) -> None:
        super().__init__()
        self.body, self.activation = nn.Linear(64, 32), activation
        self.fc = nn.Linear(32, num_outputs, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.activation(self.body(x)))


class Classifier(nn.Module):
    """The last layer ends a Sequential, as of torchvision's VGG and EfficientNet."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(64, 32), nn.GELU())
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(32, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


class Nested(nn.Module):
    """The last layer is ``head.out``."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 32)
        self.head = nn.ModuleDict({"norm": nn.LayerNorm(32), "out": nn.Linear(32, 10)})

    def forward(self, x: Tensor) -> Tensor:
        return self.head["out"](self.head["norm"](torch.relu(self.body(x))))


class TwoNames(nn.Module):
    """The last layer has two names, and is called by keyword."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 32)
        self.fc = nn.Linear(32, 10)
        self.classifier = self.fc

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(input=torch.relu(self.body(x)))


class LastFirst(nn.Module):
    """The last layer is the first that is registered."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(32, 10)
        self.body = nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.body(x)))


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "sequential": lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)),
    "fc": lambda: Fc(torch.relu),
    "fc, tanh": lambda: Fc(torch.tanh),
    "fc, gelu": lambda: Fc(nn.functional.gelu),
    "classifier": Classifier,
    "nested": Nested,
    "last first": LastFirst,
    "two names": TwoNames,
    "log softmax": lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10), nn.LogSoftmax(1)),
    "softmax": lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10), nn.Softmax(1)),
    "no bias": lambda: Fc(torch.relu, bias=False),
    "two classes": lambda: Fc(torch.relu, num_outputs=2),
    "one output": lambda: Fc(torch.relu, num_outputs=1),
    "one sigmoid": lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid()),
    "labels": lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3), nn.Sigmoid()),
    "convolutions": convolutions,
}
SINGLE = ("one output", "one sigmoid")
each_network = pytest.mark.parametrize("name", NETWORKS)


def targets(name: str, y: Tensor) -> Tensor:
    if name == "labels":
        return torch.stack([y % 2, y // 5, y // 2 % 2], 1).float()
    if name in SINGLE:
        return (y >= 5).float()
    return (y >= 5).long() if name == "two classes" else y


def probabilities(name: str, output: Tensor, logits: bool = False) -> Tensor:
    """Class probabilities that a network means by its output, or by logits whatever its own output is."""
    if name == "labels":
        return output.sigmoid() if logits else output
    if name in SINGLE:
        yes = output.sigmoid() if name == "one output" or logits else output
        return torch.cat([1 - yes, yes], 1)
    if name == "softmax" and not logits:
        return output
    return output.softmax(-1)


def loss(name: str, output: Tensor, y: Tensor) -> Tensor:
    p = probabilities(name, output)
    if name == "labels":
        return binary_cross_entropy(p, targets(name, y))
    if name in SINGLE:
        return binary_cross_entropy(p[:, 1], targets(name, y))
    if name in ("softmax", "log softmax"):
        return nll_loss(p.log(), y)
    return cross_entropy(output, targets(name, y))


@cache
def trained(name: str) -> nn.Module:
    """Not to be changed: several tests share it."""
    torch.manual_seed(0)
    net, rows = NETWORKS[name](), digits()
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(STEPS):
        batch = torch.randint(TRAINING_ROWS, (128,))
        optimiser.zero_grad()
        loss(name, net(rows.x[batch]), rows.y[batch]).backward()
        optimiser.step()
    return net.eval()


@each_network
def test_starts_equal_to_the_network(name: str) -> None:
    net, rows = trained(name), digits()
    model = replace_classifier(net, rows.x)
    assert loss(name, net(rows.x), rows.y) < 0.6  # a trained network, whose probabilities are not all alike
    for x in (rows.x, rows.held_out):
        expected = probabilities(name, net(x))
        close(model.predict_proba(x), expected, "start")
        close(probabilities(name, model(x), logits=True), model.predict_proba(x), "float32")


@each_network
@pytest.mark.parametrize("training", [True, False])
def test_the_network_is_left_as_it_was(name: str, training: bool) -> None:
    net, rows = copy.deepcopy(trained(name)), digits()
    before, output = {key: value.clone() for key, value in net.state_dict().items()}, net(rows.held_out)
    model = replace_classifier(net.train(training), rows.x)
    assert net.training == training
    assert model.training == training
    assert model.net.training == training
    assert model.head.training == training
    net.eval()
    assert list(net.state_dict()) == list(before)
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert torch.equal(net(rows.held_out), output)
    own = {parameter.data_ptr() for parameter in net.parameters()}
    assert not any(parameter.data_ptr() in own for parameter in model.parameters())


def test_a_frozen_part_stays_frozen() -> None:
    """Batch normalisation that is kept in evaluation mode while the rest is trained."""
    net = convolutions().train()
    net[2].eval()
    model = replace_classifier(net, digits().x)
    assert model.training
    assert not model.net[2].training


@each_network
def test_trains_on_jointly(name: str) -> None:
    rows = digits()
    model = replace_classifier(trained(name), rows.x).train()
    x, y = rows.x[:200], targets(name, rows.y[:200])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    bounds = []
    for _ in range(6):
        optimiser.zero_grad()
        elbo = model.elbo(x, y, float(TRAINING_ROWS), generator=torch.Generator().manual_seed(0))
        (-elbo.value).backward()
        for path, parameter in model.named_parameters():
            assert parameter.grad is not None, path
            assert parameter.grad.isfinite().all(), path
            assert parameter.grad.any(), path
        optimiser.step()
        bounds.append(elbo.value.item())
    assert bounds[-1] > bounds[0]


def swapped(name: str, **options) -> tuple[nn.Module, SVDKL]:
    net = trained(name)
    return net, replace_classifier(net, digits().x, **options)


@pytest.mark.parametrize("name", ["two classes", "one output"])
def test_one_function_of_two_features_is_enough_for_two_classes(name: str) -> None:
    net, model = swapped(name, dims_per_gp=2, grid_size=32)
    for x in (digits().x, digits().held_out):
        close(model.predict_proba(x), probabilities(name, net(x)), "start")


def test_one_function_of_two_features_is_not_enough_for_ten_classes() -> None:
    with pytest.warns(UserWarning, match=r"keeps \d+% of the linear layer's weights.*use dims_per_gp=1"):
        net, model = swapped("fc", dims_per_gp=2, grid_size=16)
    difference = model.predict_proba(digits().x) - net(digits().x).softmax(-1)
    assert difference.abs().max() > 0.01


@pytest.mark.parametrize(
    "options",
    [
        {"whitened": False},
        {"kernel": "matern52", "grid_size": 32},
        {"prior": "circulant", "posterior": "banded"},
        {"learn_bounds": True},
        {"groups": [(q,) for q in reversed(range(32))]},
    ],
    ids=str,
)
def test_any_head_of_one_feature_a_gp_starts_equal(options: dict) -> None:
    net, model = swapped("fc", **options)
    for x in (digits().x, digits().held_out):
        close(model.predict_proba(x), net(x).softmax(-1), "start")


def test_regression_starts_equal() -> None:
    net, model = swapped("fc", likelihood="gaussian")
    close(model.predict(digits().x).mean, net(digits().x), "start")


def test_double_precision_network() -> None:
    net = Fc(torch.tanh).double()
    x = digits().x.double()
    model = replace_classifier(net, x)
    assert model(x).dtype == torch.float64
    close(model.predict_proba(x), net(x).softmax(-1), "start")
