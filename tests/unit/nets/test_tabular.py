"""The network of tables, against a slow reference; and that it is a plain module."""

import copy
import io
import math
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import jaxtyping
import pytest
import torch
from tolerances import close
from torch import Tensor

import svdkl
from svdkl import MLP
from svdkl.nets.tabular import TabularNet
from svdkl.tables.layout import Codes, Flag, Layout, Number

LAYOUT = Layout(
    (
        Codes("colour", 4, True),
        Number("age", (-1.0, -0.25, 0.5, 2.0), (-0.25, 0.125, 2.0)),
        Flag("age missing"),
        Codes("town", 300, False),
        Number("switch"),
        Codes("street", 40, False),
        Number("income", (0.0, 1.5)),
        Codes("size", 3, True),
    )
)
ENCODINGS = ("piecewise", "periodic", "both", "plain")
each_encoding = pytest.mark.parametrize("encoding", ENCODINGS)


def data(rows: int = 50, dtype: torch.dtype = torch.float32) -> Tensor:
    x = torch.zeros(rows, len(LAYOUT), dtype=dtype)
    for i, feature in enumerate(LAYOUT.features):
        if isinstance(feature, Codes):
            x[:, i] = torch.randint(feature.cardinality, (rows,))
        else:
            x[:, i] = torch.randn(rows) * 2 if isinstance(feature, Number) else torch.randint(2, (rows,))
    x[0, 1], x[1, 1], x[2, 1] = -0.25, -1.0, 2.0
    return x


def slow_inputs(net: TabularNet, row: Tensor, encoding: str) -> list[float]:
    """What the first layer reads of one row, number by number."""
    features = list(zip(LAYOUT.features, row.tolist(), strict=True))
    numbers = [(feature, value) for feature, value in features if isinstance(feature, Number)]
    inputs = [value for _, value in numbers]
    if encoding in ("piecewise", "both"):
        for feature, value in numbers:
            for low, high in pairwise(feature.edges):
                inputs.append(0.0 if value <= low else 1.0 if value >= high else (value - low) / (high - low))
    if encoding in ("periodic", "both"):
        encoded = [value for feature, value in numbers if feature.edges]
        frequencies = net.encodings[-2].frequency.tolist()
        turns = [f * value for value, of_one in zip(encoded, frequencies, strict=True) for f in of_one]
        inputs += [math.sin(2 * math.pi * t) for t in turns] + [math.cos(2 * math.pi * t) for t in turns]
    if encoding != "plain":
        inputs += [float(value == level) for feature, value in numbers for level in feature.levels]
    inputs += [value for feature, value in features if isinstance(feature, Flag)]
    for feature, value in features:
        if isinstance(feature, Codes) and feature.onehot:
            inputs += [float(value == code) for code in range(1, feature.cardinality)]
    tables = iter(net.embeddings)
    for feature, value in features:
        if isinstance(feature, Codes) and not feature.onehot:
            inputs += next(tables).weight[int(value)].tolist()
    return inputs


@each_encoding
def test_inputs(encoding: str) -> None:
    net = TabularNet(LAYOUT, (8,), 3, encoding=encoding).double()
    x = data(dtype=torch.float64)
    expected = torch.tensor([slow_inputs(net, row, encoding) for row in x], dtype=torch.float64)
    close(net.inputs(x), expected, "float32")  # widths of bins are rounded to single precision
    close(net.float().inputs(x.float()), expected, "float32")


def test_features_are_those_of_an_mlp() -> None:
    net = TabularNet(LAYOUT, (8, 5), 3, activation="silu", dropout=0.5).eval()
    assert isinstance(net.layers, MLP)
    x = data()
    assert net(x).equal(net.layers(net.inputs(x)))
    assert net(x).shape == (50, 3)


@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("residual", [True, False])
def test_blocks(normalise: bool, residual: bool) -> None:
    net = TabularNet(LAYOUT, (8, 8, 5), 3, activation="gelu", normalise=normalise, residual=residual).double()
    x = data(dtype=torch.float64)
    h, blocks = net.inputs(x), getattr(net.layers, "blocks", None)
    if blocks is None:
        assert not normalise
        assert not residual
        return
    for block in blocks:
        y = h @ block[0].weight.T + block[0].bias
        if normalise:
            centred = y - y.mean(1, keepdim=True)
            y = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
        y = 0.5 * y * (1 + torch.erf(y / math.sqrt(2)))
        h = h + y if residual and h.shape == y.shape else y
    close(net(x), h @ net.layers.last.weight.T + net.layers.last.bias)


def test_unknown_values_start_as_nothing() -> None:
    net = TabularNet(LAYOUT, (8,), 3)
    x = data()
    x[:, [0, 3, 5, 7]] = 0
    embedded = sum(table.embedding_dim for table in net.embeddings)
    assert not net.inputs(x)[:, -(embedded + 5) :].any()


def test_sizes_of_embeddings() -> None:
    sizes = [table.embedding_dim for table in TabularNet(LAYOUT, (8,), 3).embeddings]
    assert sizes == [round(1.6 * 300**0.56), round(1.6 * 40**0.56)]
    assert [table.embedding_dim for table in TabularNet(LAYOUT, (8,), 3, embedding_dim=7).embeddings] == [7, 7]
    huge = Layout((Codes("a", 100_000, False),))
    assert TabularNet(huge, (8,), 3).embeddings[0].embedding_dim == 64


@pytest.mark.parametrize("features", [(LAYOUT.features[i],) for i in range(len(LAYOUT))], ids=lambda f: f[0].name)
@each_encoding
def test_one_column_is_enough(features: tuple, encoding: str) -> None:
    net = TabularNet(Layout(features), (4,), 2, encoding=encoding)
    assert net(torch.ones(3, 1)).shape == (3, 2)
    assert net(torch.ones(0, 1)).shape == (0, 2)


# ------------------------------------------------------------------------------------------------------ a plain module


@each_encoding
def test_every_parameter_learns(encoding: str) -> None:
    net = TabularNet(LAYOUT, (8, 8), 3, encoding=encoding, normalise=True, residual=True)
    net(data(2000)).square().sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@each_encoding
def test_gradients_in_the_inputs(encoding: str) -> None:
    net = TabularNet(LAYOUT, (6,), 2, encoding=encoding, activation="tanh").double()
    x = data(5, torch.float64)
    numbers = (x[3:, [1, 4, 6]] + 0.01).requires_grad_()  # off the edges

    def forward(values: Tensor) -> Tensor:
        return net(x[3:].index_copy(1, torch.tensor([1, 4, 6]), values))

    assert torch.autograd.gradcheck(forward, (numbers,))


def test_the_state_is_tensors_of_parameters() -> None:
    net = TabularNet(LAYOUT, (8,), 3)
    state = net.state_dict()
    assert list(state) == [
        "embeddings.0.weight",
        "embeddings.1.weight",
        "layers.layers.0.weight",
        "layers.layers.0.bias",
        "layers.layers.2.weight",
        "layers.layers.2.bias",
    ]
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    other = TabularNet(LAYOUT, (8,), 3)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    x = data()
    assert other(x).equal(net(x))


@each_encoding
def test_copies(encoding: str) -> None:
    net, x = TabularNet(LAYOUT, (8,), 3, encoding=encoding), data()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other(x).equal(net(x))
        assert other.layout == LAYOUT


def test_double_precision() -> None:
    net, x = TabularNet(LAYOUT, (8,), 3), data()
    expected = net(x)
    assert net.double()(x.double()).dtype == torch.float64
    close(net(x.double()), expected, "float32")


def test_compiled_and_exported() -> None:
    """In a process of its own, which runs this file: checked shapes cannot be traced."""
    path = os.pathsep.join(map(str, (Path(svdkl.__file__).parents[1], Path(__file__).parents[2])))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    finished = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=300)
    assert finished.returncode == 0, finished.stderr[-3000:]


def compile_and_export() -> None:
    net, x = TabularNet(LAYOUT, (8, 8), 3, encoding="both", normalise=True, residual=True).eval(), data()
    expected = net(x)
    expected.square().sum().backward()
    gradients = [parameter.grad.clone() for parameter in net.parameters()]
    net.zero_grad()
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    close(compiled(x), expected, "float32")
    compiled(x).square().sum().backward()
    for gradient, parameter in zip(gradients, net.parameters(), strict=True):
        close(parameter.grad, gradient, "float32")
    exported = torch.export.export(net, (x,), dynamic_shapes=((torch.export.Dim("B"), None),)).module()
    for rows in (50, 7):
        close(exported(x[:rows]), expected[:rows], "float32")


# ------------------------------------------------------------------------------------------------------------ refused


@pytest.fixture
def _unchecked_shapes() -> Iterator[None]:
    """As users have them."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("_unchecked_shapes")
@pytest.mark.parametrize(
    ("call", "part"),
    [
        (lambda: TabularNet(Layout(()), (8,), 3), "at least one column"),
        (lambda: TabularNet(LAYOUT, encoding="fourier"), "'fourier'"),
        (lambda: TabularNet(LAYOUT, activation="sine"), "'sine'"),
        (lambda: TabularNet(LAYOUT, dropout=1.0), "dropout"),
        (lambda: TabularNet(LAYOUT, embedding_dim=0), "embedding_dim"),
        (lambda: TabularNet(LAYOUT, embedding_dim="large"), "embedding_dim"),
        (lambda: TabularNet(LAYOUT, (8,), 3)(torch.zeros(2, 7)), "8 encoded columns"),
        (lambda: TabularNet(LAYOUT, (8,), 3)(torch.zeros(8)), "8 encoded columns"),
        (lambda: Layout.from_json(Layout((Number("a", (1.0,)),)).to_json()), "increasing edges"),
        (lambda: Layout.from_json(Layout((Number("a", (1.0, 1.0)),)).to_json()), "increasing edges"),
        (lambda: Layout.from_json(Layout((Number("a", (), (2.0, 1.0)),)).to_json()), "increasing levels"),
    ],
)
def test_refused(call: Callable[[], object], part: str) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    message = str(caught.value)
    assert message.startswith("Expected ")
    assert message.endswith(".")
    assert "\n" not in message
    assert part in message


if __name__ == "__main__":
    compile_and_export()
