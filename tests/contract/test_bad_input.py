"""A bad input is refused in one plain sentence that says what was expected and what came.

Without checked shapes here, which users do not have either.
"""

import math
import resource
import time
from collections.abc import Callable, Iterator

import jaxtyping
import pytest
import torch
from refusals import refused
from torch import Tensor, nn
from torch.distributions import Normal

from svdkl import MLP, SVDKL, GPHead, replace_classifier
from svdkl.gp.kernels import RBF
from svdkl.gp.memory import available_bytes, estimate_bytes, too_large
from svdkl.likelihoods import Gaussian
from svdkl.training.warm_start import start_from_linear

NAN, INF = math.nan, math.inf
X, Y = torch.linspace(-1, 1, 15).reshape(5, 3), torch.tensor([0, 1, 2, 3, 1])


@pytest.fixture(autouse=True)
def _unchecked_shapes() -> Iterator[None]:
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def classes(**options) -> GPHead:
    return GPHead(3, 4, **options)


def targets(likelihood="gaussian", num_outputs: int = 2) -> GPHead:
    return GPHead(3, num_outputs, likelihood)


def with_entry(value: float, row: int) -> Tensor:
    x = X.clone()
    x[row, 1] = value
    return x


# ---------------------------------------------------------------------------------------------------- features, rows

USES = {
    "elbo": lambda head, h: head.elbo(h, Y, 10),
    "predict_proba": lambda head, h: head.predict_proba(h),
    "forward": lambda head, h: head(h),
    "log_predictive": lambda head, h: head.log_predictive(h, Y),
    "uncertainty": lambda head, h: head.uncertainty(h),
    "marginals": lambda head, h: head.gps.marginals(h),
    "sample_functions": lambda head, h: head.gps.sample_functions(h, 2),
    "kernel_matrix": lambda head, h: head.gps.kernel_matrix(X, h, 0),
    "latent_covariance": lambda head, h: head.gps.latent_covariance(h, X, 0),
    "model": lambda head, h: SVDKL(nn.Identity(), head).predict_proba(h),
}
each_use = pytest.mark.parametrize("use", USES)


@each_use
@pytest.mark.parametrize("shape", [(3,), (5, 2), (5, 4), (5, 3, 1)], ids=str)
def test_features_of_a_wrong_shape(use: str, shape: tuple[int, ...]) -> None:
    refused(lambda: USES[use](classes(), torch.zeros(shape)), "features of shape (rows, 3)", str(shape))


@each_use
@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("row", [0, 4])
def test_features_that_are_not_finite(use: str, value: float, row: int) -> None:
    refused(lambda: USES[use](classes(), with_entry(value, row)), "finite features", f"row {row}")


def test_a_bound_of_no_rows() -> None:
    refused(lambda: classes().elbo(X[:0], Y[:0], 10), "at least", "row")


# ----------------------------------------------------------------------------------------------------------- targets


@pytest.mark.parametrize(
    ("head", "y", "parts"),
    [
        (classes, torch.tensor([0, 1, 4, 3, 1]), ["labels from 0 to 3", "got 4"]),
        (classes, torch.tensor([0, 1, -1, 3, 1]), ["labels from 0 to 3", "got -1"]),
        (classes, Y.float(), ["integer labels", "0 to 3", "float32"]),
        (classes, Y[:, None], ["labels of shape (5,)", "(5, 1)"]),
        (classes, Y[:4], ["labels of shape (5,)", "(4,)"]),
        (classes, torch.eye(4)[Y], ["labels of shape (5,)", "(5, 4)"]),
        (targets, torch.zeros(5), ["targets of shape (5, 2)", "(5,)"]),
        (targets, torch.zeros(5, 3), ["targets of shape (5, 2)", "(5, 3)"]),
        (targets, torch.zeros(2, 5), ["targets of shape (5, 2)", "(2, 5)"]),
        (lambda: targets(num_outputs=1), torch.zeros(4), ["(5, 1) or (5,)", "(4,)"]),
        (targets, torch.full((5, 2), NAN), ["finite targets", "nan"]),
        (lambda: targets("student_t"), torch.full((5, 2), INF), ["finite targets", "inf"]),
        (lambda: targets("bernoulli"), torch.full((5, 2), 0.5), ["labels 0 and 1", "0.5"]),
        (lambda: targets("bernoulli"), torch.full((5, 2), 2), ["labels 0 and 1", "2"]),
        (lambda: targets("poisson"), torch.full((5, 2), -1), ["counts 0, 1, 2", "-1"]),
        (lambda: targets("poisson"), torch.full((5, 2), 0.5), ["counts 0, 1, 2", "0.5"]),
        (lambda: targets("negative_binomial"), torch.full((5, 2), -3.0), ["counts 0, 1, 2", "-3"]),
        (lambda: targets("negative_binomial"), torch.full((5, 2), NAN), ["counts 0, 1, 2", "nan"]),
        (lambda: targets(lambda g: Normal(g[..., 0], 1.0)), torch.zeros(4), ["shape (5,)", "(4,)"]),
        (lambda: targets(lambda g: Normal(g[..., 0], 1.0)), torch.full((5,), NAN), ["finite targets"]),
        (lambda: targets(lambda g: Normal(g[..., 0], 1.0)), torch.zeros(5, 1), ["targets", "(5, 1)"]),
    ],
)
@pytest.mark.parametrize("use", ["elbo", "log_predictive"])
def test_targets(head: Callable[[], GPHead], y: Tensor, parts: list[str], use: str) -> None:
    if use == "elbo":
        refused(lambda: head().elbo(X, y, 10), *parts)
    else:
        refused(lambda: head().log_predictive(X, y), *parts)


# ------------------------------------------------------------------------------------------------ N, weights, samples


@pytest.mark.parametrize("num_data", [0, -3, 0.0, NAN, -INF])
def test_number_of_rows(num_data: float) -> None:
    refused(lambda: classes().elbo(X, Y, num_data), "num_data", "above 0", f"got {num_data}")


def test_number_of_rows_without_end() -> None:
    refused(lambda: classes().elbo(X, Y, INF), "num_data", "finite", "got inf")  # it is above 0


def test_number_of_rows_left_out() -> None:
    refused(lambda: SVDKL(nn.Identity(), 3, 4)(X, Y), "num_data", "got none")


@pytest.mark.parametrize(
    ("weight", "parts"),
    [
        (torch.tensor([1.0, 1, -1, 1, 1]), ["at least 0", "negative"]),
        (torch.tensor([1.0, 1, NAN, 1, 1]), ["finite", "NaN"]),
        (torch.tensor([1.0, 1, INF, 1, 1]), ["finite", "infinite"]),
        (torch.ones(4), ["weights of shape (5,)", "(4,)"]),
        (torch.ones(5, 1), ["weights of shape (5,)", "(5, 1)"]),
        (torch.tensor(1.0), ["weights of shape (5,)", "()"]),
    ],
)
def test_sample_weights(weight: Tensor, parts: list[str]) -> None:
    refused(lambda: classes().elbo(X, Y, 10, weight), *parts)


def test_no_draws() -> None:
    refused(lambda: classes().gps.sample_functions(X, 0), "num_samples", "at least 1", "0")


@pytest.mark.parametrize("gp", [3, -1])
def test_number_of_a_gp(gp: int) -> None:
    refused(lambda: classes().gps.kernel_matrix(X, X, gp), "from 0 to 2", f"got {gp}")
    refused(lambda: classes().gps.latent_covariance(X, X, gp), "from 0 to 2", f"got {gp}")


def test_the_other_kind_of_prediction() -> None:
    refused(lambda: targets().predict_proba(X), "likelihood of classes", "Gaussian", "use predict ")
    refused(lambda: classes().predict(X), "real targets or counts", "Softmax", "use predict_proba")


# ----------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"num_features": 0}, ["num_features", "at least 1", "0"]),
        ({"num_outputs": 0}, ["num_outputs", "at least 1", "0"]),
        ({"num_outputs": 1}, ["at least 2 outputs", "softmax", "got 1", "bernoulli"]),
        ({"num_samples": 0}, ["num_samples", "at least 1", "0"]),
        ({"num_points": 0}, ["num_points", "at least", "0"]),
        ({"num_points": 1}, ["num_points", "at least 2", "1"]),
        ({"jitter": -1.0}, ["jitter", "-1"]),
        ({"jitter": NAN}, ["jitter", "nan"]),
        ({"posterior_scale": 0.0}, ["posterior_scale", "above 0", "0.0"]),
        ({"posterior_scale": -1.0}, ["posterior_scale", "above 0", "-1.0"]),
        ({"grid_size": 3}, ["at least 4 points", "got 3"]),
        ({"grid_size": 0}, ["at least 4 points", "got 0"]),
        ({"grid_size": (8, 3), "dims_per_gp": 2}, ["at least 4 points", "got 3"]),
        ({"grid_size": (8, 8, 8), "dims_per_gp": 2}, ["one grid size or 2", "got 3"]),
        ({"grid_size": [8], "dims_per_gp": 2}, ["one grid size or 2", "got 1"]),
        ({"dims_per_gp": 3}, ["divide the 4 features", "got 3", "groups="]),
        ({"dims_per_gp": 0}, ["divide the 4 features", "got 0"]),
        ({"dims_per_gp": 8}, ["divide the 4 features", "got 8"]),
        ({"groups": [(0,), (1, 4)]}, ["features 0 to 3", "(1, 4)", "feature 4"]),
        ({"groups": [(0,), (-1,)]}, ["features 0 to 3", "feature -1"]),
        ({"groups": []}, ["at least one group", "none"]),
        ({"groups": [(0,), ()]}, ["at least one feature", "empty group"]),
        ({"groups": [(0, 1, 0)]}, ["a feature once", "(0, 1, 0)"]),
        ({"kernel": "rbff"}, ["kernel name", "matern52", "'rbff'"]),
        ({"kernel": ["rbf", "rbf"]}, ["one kernel or 1", "got 2"]),
        ({"kernel": RBF(3)}, ["for 4 GPs", "one for 3"]),
        ({"kernel": nn.ReLU()}, ["kernel name", "ReLU"]),
        ({"kernel": "periodic", "prior": "circulant"}, ["decays", "circulant", "Periodic", "toeplitz"]),
        ({"likelihood": "sofmax"}, ["likelihood name", "bernoulli", "'sofmax'"]),
        ({"likelihood": None}, ["likelihood name", "None"]),
        ({"likelihood": Gaussian(2)}, ["3 outputs", "one of 2"]),
        ({"likelihood": lambda g: g}, ["torch.distributions.Distribution", "Tensor"]),
        ({"posterior": "full"}, ["posterior", "auto, cholesky, banded, mean_field", "'full'"]),
        ({"prior": "dense"}, ["prior", "toeplitz", "circulant", "'dense'"]),
        ({"estimator": "monte carlo"}, ["estimator", "marginal, joint", "'monte carlo'"]),
        ({"gps": "classes"}, ["gps", "features, outputs", "'classes'"]),
        ({"gps": "outputs"}, ["3 outputs", "gps='outputs'", "4 features", "gps='features'"]),
        ({"gps": "outputs", "num_outputs": 4, "dims_per_gp": 2}, ["4 outputs", "2 groups"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_options(options: dict, parts: list[str]) -> None:
    refused(lambda: GPHead(**{"num_features": 4, "num_outputs": 3} | options), *parts)
    if "num_features" not in options:
        refused(lambda: SVDKL(nn.Identity(), **{"num_features": 4, "num_outputs": 3} | options), *parts)


def test_activation() -> None:
    refused(lambda: MLP(3, (4,), 2, activation="relux"), "activation", "gelu", "'relux'")


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"num_features": 5, "dims_per_gp": 5, "grid_size": 200}, "200 x 200 x 200 x 200 x 200"),
        ({"num_features": 6, "dims_per_gp": 6}, "64 x 64 x 64 x 64 x 64 x 64"),
        ({"num_features": 8, "groups": [(0,), (1, 2, 3, 4, 5, 6)]}, "64 x 64 x 64 x 64 x 64 x 64"),
        ({"num_features": 3, "grid_size": 1_000_000, "posterior": "cholesky"}, "1000000"),
    ],
    ids=["5 dimensions", "6 dimensions", "one large group", "a long axis"],
)
def test_too_large_a_lattice_is_refused_at_once(options: dict, size: str) -> None:
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    refused(lambda: GPHead(num_outputs=3, **options), size, "GiB of memory available", "use ", error=MemoryError)
    assert time.process_time() - start < 0.5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


def test_the_way_out_of_too_large_a_lattice_is_one() -> None:
    error = too_large(1, (200,) * 5, "cholesky", "auto")
    largest = int(str(error).split("grid_size=")[1].split(",")[0])
    assert estimate_bytes(1, (largest // 2,) * 5, "cholesky", "auto") < available_bytes()
    refused(lambda: GPHead(5, 1, dims_per_gp=5, grid_size=2 * largest), "GiB", error=MemoryError)


# ------------------------------------------------------------------------------------------ taking over a network


class After(nn.Module):
    """A small network that does something with what its last layer gives."""

    def __init__(self, after: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.body, self.out, self.after = nn.Linear(3, 6), nn.Linear(6, 4), after
        nn.init.constant_(self.out.bias, -1.0)  # so that the output has a negative entry, whatever the weights

    def forward(self, x: Tensor) -> object:
        return self.after(self.out(torch.relu(self.body(x))))


@pytest.mark.parametrize(
    ("build", "parts"),
    [
        (lambda: nn.Sequential(nn.Flatten(), nn.ReLU()), ["with an nn.Linear", "Sequential"]),
        (lambda: nn.Linear(3, 4), ["layers before its last nn.Linear", "single nn.Linear", "GPHead"]),
        (lambda: After(lambda g: 2 * g), ["'out'", "goes on after it", "(5, 4)"]),
        (lambda: After(lambda g: g[:, :2]), ["'out'", "goes on after it", "(5, 2)"]),
        (lambda: After(lambda g: {"logits": g}), ["'out'", "goes on after it", "dict"]),
        (lambda: After(torch.tanh), ["'out'", "goes on after it"]),
        # These leave the features that the last layer read as they are, but not its output.
        (lambda: After(torch.relu), ["'out'", "goes on after it"]),
        (lambda: After(torch.abs), ["'out'", "goes on after it"]),
    ],
    ids=["no linear", "bare linear", "doubled", "sliced", "dict", "tanh", "relu", "abs"],
)
def test_networks_whose_last_layer_is_not_the_last_word(build: Callable[[], nn.Module], parts: list[str]) -> None:
    refused(lambda: replace_classifier(build(), X), *parts)


def test_a_last_layer_that_reads_sequences() -> None:
    net = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 4))
    refused(lambda: replace_classifier(net, torch.zeros(5, 2, 3)), "'2'", "(rows, features)", "(5, 2, 6)", "pool")


@pytest.mark.parametrize(("x_sample", "parts"), [(X[:0], ["row"]), (with_entry(NAN, 3), ["finite", "row 3"])])
def test_samples_that_show_no_ranges(x_sample: Tensor, parts: list[str]) -> None:
    refused(lambda: replace_classifier(MLP(3, (6,), 4), x_sample), *parts)


def test_weights_of_another_layer() -> None:
    weight = torch.zeros(3, 3)
    refused(lambda: start_from_linear(classes(), X, weight, None), "shape (4, 3)", "(3, 3)")
