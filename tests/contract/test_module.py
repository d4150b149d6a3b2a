"""SVDKL and GPHead are plain modules: state, copies, gradients, precision, odd batches, seeds, weights."""

import copy
import io
import pickle
from collections.abc import Iterator

import pytest
import torch
from tolerances import close
from torch import Tensor, nn

from svdkl import MLP, SVDKL, GPHead

pytestmark = pytest.mark.filterwarnings("ignore:TF32 acceleration")  # said by torch.backends.mkldnn.flags

ROWS, INPUTS, FEATURES, NUM_DATA = 7, 5, 4, 50.0

MODELS = {
    "default": {},
    "two classes": {"num_outputs": 2},
    "planes": {"dims_per_gp": 2, "grid_size": 8},
    "unused features": {"groups": [(0,), (1,)]},
    "mixed groups": {"groups": [(0, 3), (1,), (2,)], "grid_size": 8},
    "ring, banded": {"prior": "circulant", "posterior": "banded"},
    "direct, mean field": {"whitened": False, "posterior": "mean_field", "jitter": 1e-3},
    "joint": {"estimator": "joint", "num_samples": 2},
    "learned bounds": {"learn_bounds": True, "kernel": "matern52"},
    "spectral mixture": {"kernel": "spectral_mixture"},
    "gaussian": {"likelihood": "gaussian"},
    "student_t": {"likelihood": "student_t"},
    "bernoulli": {"likelihood": "bernoulli"},
    "poisson": {"likelihood": "poisson"},
    "negative_binomial": {"likelihood": "negative_binomial"},
}
each_model = pytest.mark.parametrize("name", MODELS)


def build(name: str = "default", seed: int | None = None) -> SVDKL:
    """A model whose functions are not all zero, as they are at the very start."""
    if seed is not None:
        torch.manual_seed(seed)
    options = {"num_outputs": 3, "grid_size": 16} | MODELS[name]
    model = SVDKL(MLP(INPUTS, (6,), FEATURES), FEATURES, **options)
    with torch.no_grad():
        for bank in model.head.gps.banks:
            bank.gps.posterior.mean.normal_()
    return model


def data(model: SVDKL, rows: int = ROWS) -> tuple[Tensor, Tensor]:
    x, num_outputs = torch.randn(rows, INPUTS), model.head.num_outputs
    kind = type(model.head.likelihood).__name__
    if kind == "Softmax":
        return x, torch.randint(num_outputs, (rows,))
    if kind in ("Gaussian", "StudentT"):
        return x, torch.randn(rows, num_outputs)
    return x, torch.randint(2, (rows, num_outputs)).float()


def generator(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def outputs(model: SVDKL, x: Tensor) -> Tensor:
    """All that a model predicts, as one tensor."""
    if model.head.likelihood.is_classifier:
        return torch.cat([model.predict_proba(x), model(x)], -1)
    return torch.cat(model.predict(x), -1)


# ------------------------------------------------------------------------------------------------------------- state


def test_names_in_the_state_are_stable() -> None:
    assert list(build().state_dict()) == [
        "net.layers.0.weight",
        "net.layers.0.bias",
        "net.layers.2.weight",
        "net.layers.2.bias",
        "head.gps.bounding.location",
        "head.gps.bounding.log_scale",
        "head.gps.banks.0.gps.centre",
        "head.gps.banks.0.gps.share_left",
        "head.gps.banks.0.gps.kernel.log_variance",
        "head.gps.banks.0.gps.kernel.axes.0.log_lengthscale",
        "head.gps.banks.0.gps.posterior.mean",
        "head.gps.banks.0.gps.posterior.factors.0.raw",
        "head.familiarity.rows",
        "head.mixing.weight",
        "head.mixing.bias",
    ]


def test_names_of_two_banks_bands_and_noise_are_stable() -> None:
    head = GPHead(3, 2, "gaussian", groups=[(0, 1), (2,)], grid_size=8, posterior="banded")
    posterior = ["posterior.mean", "posterior.factors.0.raw_diagonal", "posterior.factors.0.lower"]
    line = ["centre", "share_left", "kernel.log_variance", "kernel.axes.0.log_lengthscale", *posterior]
    plane = [
        *line[:4],
        "kernel.axes.1.log_lengthscale",
        *posterior,
        "posterior.factors.1.raw_diagonal",
        "posterior.factors.1.lower",
    ]
    assert list(head.state_dict()) == [
        "gps.bounding.location",
        "gps.bounding.log_scale",
        *(f"gps.banks.0.gps.{name}" for name in line),
        *(f"gps.banks.1.gps.{name}" for name in plane),
        "familiarity.rows",
        "mixing.weight",
        "mixing.bias",
        "likelihood.log_noise",
    ]


@each_model
def test_state_goes_through_a_file_of_tensors_into_a_fresh_model(name: str) -> None:
    model, file = build(name, seed=1), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    fresh = build(name, seed=2)
    x, _ = data(model)
    assert not torch.equal(outputs(fresh, x), outputs(model, x))
    fresh.load_state_dict(torch.load(file, weights_only=True), strict=True)
    assert torch.equal(outputs(fresh, x), outputs(model, x))


@each_model
@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["deepcopy", "pickle"]
)
def test_a_copy_predicts_the_same_and_is_independent(name: str, duplicate) -> None:
    model = build(name)
    x, y = data(model)
    before = outputs(model, x)
    twin = duplicate(model)
    assert torch.equal(outputs(twin, x), before)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(0.1)
    assert torch.equal(outputs(model, x), before)
    assert not torch.equal(outputs(twin, x), before)
    twin.elbo(x, y, NUM_DATA).value.backward()
    assert all(parameter.grad is None for parameter in model.parameters())


# --------------------------------------------------------------------------------------------------------- gradients


@each_model
def test_every_parameter_gets_a_finite_gradient(name: str) -> None:
    model = build(name)
    x, y = data(model)
    (-model.elbo(x, y, NUM_DATA).value).backward()
    for path, parameter in model.named_parameters():
        assert parameter.grad is not None, path
        assert parameter.grad.isfinite().all(), path
        assert parameter.grad.any(), path


def test_a_call_with_targets_is_the_elbo() -> None:
    model = build()
    x, y = data(model)
    for called, direct in zip(
        model(x, y, NUM_DATA, generator=generator()), model.elbo(x, y, NUM_DATA, generator=generator()), strict=True
    ):
        assert torch.equal(called, direct)
    with pytest.raises(ValueError, match="Expected num_data"):
        model(x, y)


def test_training_mode_is_the_networks_alone() -> None:
    model = SVDKL(MLP(INPUTS, (64,), FEATURES, dropout=0.5), FEATURES, 3)
    with torch.no_grad():
        model.head.gps.banks[0].gps.posterior.mean.normal_()
    x, _ = data(model)
    assert model.training
    assert model.head.training
    assert not torch.equal(model(x), model(x))
    h = model.net(x)
    noisy = model.head(h)
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    assert torch.equal(model.head(h), noisy)
    assert torch.equal(model(x), model(x))


# --------------------------------------------------------------------------------------------------------- precision


@each_model
@pytest.mark.parametrize("convert", [nn.Module.double, lambda model: model.to(torch.float64)], ids=["double", "to"])
def test_double_precision(name: str, convert) -> None:
    model = build(name)
    x, y = data(model)
    single = outputs(model, x)
    model = convert(model)
    x = x.double()
    y = y.double() if y.is_floating_point() else y
    assert outputs(model, x).dtype == torch.float64
    close(outputs(model, x), single, "float32")
    elbo = model.elbo(x, y, NUM_DATA)
    assert {term.dtype for term in elbo} == {torch.float64}
    elbo.value.backward()
    assert all(parameter.grad.dtype == torch.float64 for parameter in model.parameters())
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.fixture
def bfloat16() -> Iterator[None]:
    """Autocast, without oneDNN: some virtual machines announce bf16 instructions that they cannot run."""
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", dtype=torch.bfloat16):
        yield


@pytest.mark.parametrize("name", ["default", "two classes", "planes", "joint", "gaussian"])
def test_under_autocast_the_head_stays_in_single_precision(name: str, bfloat16: None) -> None:
    model = build(name)
    x, y = data(model)
    h = model.net(x)
    assert h.dtype == torch.bfloat16  # so autocast is on, and the network is all that it touches
    with torch.autocast("cpu", enabled=False):
        expected = model.head(h.float())
        expected_elbo = model.head.elbo(h.float(), y, NUM_DATA, generator=generator())
    assert model(x).dtype == torch.float32
    close(model(x), expected, "float32")
    elbo = model.elbo(x, y, NUM_DATA, generator=generator())
    for term, expected_term in zip(elbo, expected_elbo, strict=True):
        assert term.dtype == torch.float32
        close(term, expected_term, "float32")
    elbo.value.backward()
    assert all(parameter.grad.dtype == torch.float32 for parameter in model.parameters())
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_autocast_changes_probabilities_by_the_networks_rounding_only(bfloat16: None) -> None:
    model = build()
    with torch.no_grad():
        model.head.mixing.weight.mul_(0.05)
    x, _ = data(model)
    rounded = model.predict_proba(x)
    with torch.autocast("cpu", enabled=False):
        exact = model.predict_proba(x)
    assert not torch.equal(rounded, exact)
    close(rounded, exact, "start")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_features_of_half_precision_are_read_in_single_precision(dtype: torch.dtype) -> None:
    head = build().head
    h, y = torch.randn(ROWS, FEATURES).to(dtype), torch.randint(3, (ROWS,))
    assert head.predict_proba(h).dtype == torch.float32
    assert torch.equal(head.predict_proba(h), head.predict_proba(h.float()))
    elbo = head.elbo(h, y, NUM_DATA, generator=generator())
    assert torch.equal(elbo.value, head.elbo(h.float(), y, NUM_DATA, generator=generator()).value)


# ------------------------------------------------------------------------------------------------------ odd batches


@each_model
def test_features_need_not_be_contiguous(name: str) -> None:
    head = build(name).head
    wide = torch.randn(ROWS, 2 * FEATURES)
    for h in (wide[:, ::2], torch.randn(FEATURES, ROWS).T, torch.randn(1, FEATURES).expand(ROWS, FEATURES)):
        assert not h.is_contiguous()
        close(head(h), head(h.contiguous()), "float32")


@each_model
def test_one_row(name: str) -> None:
    model = build(name)
    x, y = data(model)
    close(outputs(model, x[:1]), outputs(model, x)[:1], "float32")
    assert model.elbo(x[:1], y[:1], NUM_DATA).value.isfinite()


@each_model
def test_no_rows_have_no_predictions(name: str) -> None:
    model = build(name)
    x, y = data(model)
    assert outputs(model, x[:0]).shape == (0, outputs(model, x).shape[1])
    assert model.log_predictive(x[:0], y[:0]).shape == (0,)
    assert all(term.shape[0] == 0 for term in model.uncertainty(x[:0]))


# ------------------------------------------------------------------------------------------------------------- seeds


@each_model
def test_predictions_are_deterministic_and_leave_the_random_state_alone(name: str) -> None:
    model = build(name)
    x, y = data(model)
    before = torch.get_rng_state()
    assert torch.equal(outputs(model, x), outputs(model, x))
    assert torch.equal(model.log_predictive(x, y), model.log_predictive(x, y))
    for first, second in zip(model.uncertainty(x), model.uncertainty(x), strict=True):
        assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


@each_model
def test_the_same_seed_gives_the_same_model_and_the_same_elbo(name: str) -> None:
    one, two = build(name, seed=3), build(name, seed=3)
    for parameter, twin in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(parameter, twin)
    x, y = data(one)
    elbo = one.elbo(x, y, NUM_DATA, generator=generator())
    assert torch.equal(elbo.value, two.elbo(x, y, NUM_DATA, generator=generator()).value)
    draws_noise = name == "joint" or one.head.likelihood.contrasts(x) is None
    assert torch.equal(elbo.value, one.elbo(x, y, NUM_DATA, generator=generator(6)).value) != draws_noise


# ----------------------------------------------------------------------------------------------------------- weights

WEIGHTED = ["two classes", "gaussian", "bernoulli", "joint"]  # the rows' noise is none, or one for all rows


def terms(model: SVDKL, x: Tensor, y: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The likelihood term of all rows together, and the KL per datum."""
    elbo = model.elbo(x, y, NUM_DATA, weight, generator())
    close(elbo.value, elbo.expected_log_likelihood - elbo.kl)
    return elbo.expected_log_likelihood * len(x), elbo.kl


@pytest.mark.parametrize("name", WEIGHTED)
def test_rows_of_weight_zero_are_absent(name: str) -> None:
    model = build(name).double()
    x, y = data(model)
    x = x.double()
    weight = torch.tensor([1, 0, 1, 1, 0, 1, 0.0]).double()
    kept = weight.bool()
    for weighted, expected in zip(terms(model, x, y, weight), terms(model, x[kept], y[kept]), strict=True):
        close(weighted, expected)


@pytest.mark.parametrize("name", WEIGHTED)
def test_whole_weights_are_repeated_rows(name: str) -> None:
    model = build(name).double()
    x, y = data(model)
    x = x.double()
    weight = torch.tensor([1, 3, 0, 2, 1, 1, 4])
    repeated = torch.arange(ROWS).repeat_interleave(weight)
    for weighted, expected in zip(
        terms(model, x, y, weight.double()), terms(model, x[repeated], y[repeated]), strict=True
    ):
        close(weighted, expected)


def test_gradients_are_weighted_too() -> None:
    model = build("two classes").double()
    x, y = data(model)
    x = x.double()
    weight = torch.tensor([0, 0, 2.5, 0, 0, 0, 0]).double()
    layer = model.net.layers[-1].weight
    (weighted,) = torch.autograd.grad(terms(model, x, y, weight)[0], layer)
    (alone,) = torch.autograd.grad(terms(model, x[2:3], y[2:3])[0], layer)
    close(weighted, 2.5 * alone)


def test_ranges_and_memory_are_of_features_as_predictions_see_them() -> None:
    """Neither dropout nor batches that move a normalisation, and the network stays in the mode that it was in."""
    net = nn.Sequential(nn.Linear(INPUTS, FEATURES), nn.BatchNorm1d(FEATURES), nn.Dropout(0.5)).train()
    net[1].eval()
    model, x = SVDKL(net, FEATURES, 3, grid_size=8), torch.randn(50, INPUTS)
    before = copy.deepcopy(net.state_dict())
    model.set_ranges(x)
    model.remember(x)
    assert [module.training for module in net.modules()] == [True, True, False, True]
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name])
    found = [model.head.gps.bounding.location.clone(), model.head.familiarity.strangeness(net.eval()(x))]
    model.set_ranges(x)
    model.remember(x)
    close(model.head.gps.bounding.location, found[0])
    close(model.head.familiarity.strangeness(net(x)), found[1], "float32")


@pytest.mark.parametrize("size", [1.0, 50.0])
def test_ranges_of_a_network_with_new_batch_normalisation_are_those_of_training(size: float) -> None:
    net = nn.Sequential(nn.Linear(INPUTS, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, FEATURES), nn.Dropout(0.5))
    model, x = SVDKL(net, FEATURES, 3, grid_size=8), size * torch.randn(300, INPUTS)
    before = copy.deepcopy(net.state_dict())
    model.set_ranges(x)
    assert all(module.training for module in net.modules())
    assert net[1].track_running_stats
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name])
    found = model.head.gps.bounding.location, model.head.gps.bounding.scale
    with torch.no_grad():
        model.head.gps.bounding.set_ranges(net[:-1](x))
    close(model.head.gps.bounding.location, found[0], "float32")
    close(model.head.gps.bounding.scale, found[1], "float32")


def test_models_do_not_mind_another_default_device() -> None:
    net = MLP(INPUTS, (6,), FEATURES, dropout=0.25)
    model, x = SVDKL(net, FEATURES, 2, grid_size=8), torch.randn(ROWS, INPUTS)
    y = torch.zeros(ROWS, dtype=torch.long)
    with torch.device("meta"):
        value = model.elbo(x, y, num_data=ROWS).value
        value.backward()
    assert value.device.type == "cpu"
    assert bool(value.isfinite())


def test_the_heads_in_a_container_are_moved_and_counted() -> None:
    """Nothing hides from nn.Module: parameters and buffers of a head are those of what holds it."""
    head = build().head
    holder = nn.Sequential(nn.Linear(INPUTS, FEATURES), head)
    assert {id(p) for p in head.parameters()} < {id(p) for p in holder.parameters()}
    holder.double()
    assert {t.dtype for t in [*holder.parameters(), *holder.buffers()] if t.is_floating_point()} == {torch.float64}
    assert holder(torch.randn(ROWS, INPUTS).double()).shape == (ROWS, 3)
