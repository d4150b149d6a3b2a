"""Every backend against the eager path: one contract for values, gradients, precisions, edges, threads and D."""

import inspect
import threading
from typing import NamedTuple

import pytest
import torch
from tolerances import close

from svdkl import GPHead
from svdkl.gp.fast import backends
from svdkl.gp.fast.backends import marginals

KIND = {torch.float64: "float64", torch.float32: "float32"}
GPS = 3
SIZES = {1: (7,), 2: (6, 5), 3: (5, 4, 6)}
MANY = 20_000

each_dimension = pytest.mark.parametrize("num_dims", [1, 2, 3])


class Backend(NamedTuple):
    name: str
    device: str


@pytest.fixture(params=["cpu", "triton"])
def backend(request, monkeypatch) -> Backend:
    if request.param == "cpu":
        return Backend("cpu", "cpu")
    if torch.cuda.is_available():
        device = "cuda"
    else:
        device = "cpu"
        monkeypatch.setenv("TRITON_INTERPRET", "1")  # read when triton is first imported
    pytest.importorskip("triton", reason="triton is not installed: pip install triton")
    return Backend("triton", device)


class Inputs(NamedTuple):
    """The tensors that have gradients, in the order in which they are compared."""

    values: torch.Tensor
    positions: torch.Tensor
    roots: tuple[torch.Tensor, ...]

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [self.values, self.positions, *self.roots]

    def by(self, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        return marginals(self.values, self.roots, self.positions, name)

    def map(self, function) -> "Inputs":
        values, positions, *roots = [function(x.detach()).requires_grad_() for x in self.tensors]
        return Inputs(values, positions, tuple(roots))


def make(num_dims: int, rows: int = 20, gps: int = GPS, dtype: torch.dtype = torch.float64, device="cpu") -> Inputs:
    sizes = SIZES[num_dims]
    values = torch.randn(gps, *sizes, dtype=dtype)
    roots = tuple(torch.randn(4, 4, gps, size - 1, dtype=dtype) for size in sizes)
    # Some beyond either end.
    positions = torch.rand(rows, gps, num_dims, dtype=dtype) * (torch.tensor(sizes, dtype=dtype) + 1) - 1
    return Inputs(values, positions, roots).map(lambda x: x.to(device))


def gradients(outputs, inputs: list[torch.Tensor], seed: int = 1, **options) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    cotangents = [torch.randn(x.shape, dtype=torch.float64, generator=generator).to(x) for x in outputs]
    return torch.autograd.grad(outputs, inputs, cotangents, **options)


def compare(inputs: Inputs, name: str, kind: str = "float64") -> None:
    actual, expected = inputs.by(name), inputs.by("eager")
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == other.dtype
        close(one, other, kind)
    found, right = gradients(actual, inputs.tensors), gradients(expected, inputs.tensors)
    for one, other in zip(found, right, strict=True):
        assert one.dtype == other.dtype
        close(one, other, kind)


@each_dimension
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("rows", [0, 1, 50])
def test_values_and_gradients(num_dims, dtype, rows, backend):
    compare(make(num_dims, rows, dtype=dtype, device=backend.device), backend.name, KIND[dtype])


@each_dimension
def test_one_gp(num_dims, backend):
    compare(make(num_dims, gps=1, device=backend.device), backend.name)


@each_dimension
def test_ends_grid_points_and_places_far_outside(num_dims, backend):
    inputs = make(num_dims, device=backend.device)
    places = torch.tensor([-torch.inf, -1, 0, 1e-12, 1, 2.5, 3, 4, 5, 5 + 1e-12, 6, 9, torch.inf], dtype=torch.float64)
    positions = torch.stack([places.roll(5 * k) for k in range(GPS * num_dims)], -1)
    positions = positions.view(-1, GPS, num_dims).to(backend.device).requires_grad_()
    compare(inputs._replace(positions=positions), backend.name)


def reversed_dims(x: torch.Tensor) -> torch.Tensor:
    return x.permute(*reversed(range(x.dim())))


@each_dimension
def test_non_contiguous_input(num_dims, backend):
    """Dimensions in reverse order in memory; also those of the cotangents, since a matrix product gives such."""
    inputs = make(num_dims, device=backend.device).map(lambda x: reversed_dims(reversed_dims(x).contiguous()))
    compare(inputs, backend.name)
    right = torch.randn(GPS, 2, dtype=torch.float64, device=backend.device)
    found = []
    for name in (backend.name, "eager"):
        mean, variance = inputs.by(name)
        found.append(gradients([(right.T @ mean.T).T, (right.T @ variance.T).T], inputs.tensors))
    for one, other in zip(*found, strict=True):
        close(one, other)


@each_dimension
def test_a_nan_stays_one_and_harms_no_other_row(num_dims, backend):
    inputs = make(num_dims, device=backend.device)
    with torch.no_grad():
        inputs.positions[2, 1, -1] = torch.nan
    actual, expected = inputs.by(backend.name), inputs.by("eager")
    for one, other in zip(actual, expected, strict=True):
        assert one.isnan().nonzero().tolist() == [[2, 1]]
        torch.testing.assert_close(one, other, equal_nan=True)
    (of_positions,) = gradients(actual, [inputs.positions])
    assert not of_positions[torch.arange(len(of_positions)) != 2].isnan().any()


@each_dimension
def test_second_derivatives_are_those_of_the_eager_path(num_dims, backend):
    inputs = make(num_dims, 4, device=backend.device)
    hessians = []
    for name in (backend.name, "eager"):
        mean, variance = inputs.by(name)
        (gradient,) = torch.autograd.grad((mean * variance).sum(), inputs.positions, create_graph=True)
        hessians.append(torch.autograd.grad(gradient.sin().sum(), inputs.tensors))
    for one, other in zip(*hessians, strict=True):
        close(one, other)


@each_dimension
@pytest.mark.parametrize("create_graph", [False, True])
def test_inputs_may_be_frozen(num_dims, create_graph, backend):
    """Each alone has the gradient that it has among all."""
    inputs = make(num_dims, 5, device=backend.device)
    everything = gradients(inputs.by("eager"), inputs.tensors)
    for i, expected in enumerate(everything):
        tensors = [x.detach().requires_grad_(k == i) for k, x in enumerate(inputs.tensors)]
        alone = Inputs(tensors[0], tensors[1], tuple(tensors[2:]))
        close(gradients(alone.by(backend.name), [tensors[i]], create_graph=create_graph)[0].detach(), expected)


@each_dimension
def test_sums_over_many_rows_are_exact_in_single_precision(num_dims):
    """All gradients of one sign, so that a running sum in single precision would lose the small terms."""
    single = make(num_dims, MANY, dtype=torch.float32)
    found = []
    for inputs in (single, single.map(torch.Tensor.double)):
        mean, _ = inputs.by("cpu")
        found.append(torch.autograd.grad(mean.sum(), inputs.values)[0])
    assert float((found[0] - found[1]).norm() / found[1].norm()) < 1e-6


# ---------------------------------------------------------------------------------------------- threads and the cache


@each_dimension
@pytest.mark.parametrize("gps", [1, 2, 5])
def test_several_threads_give_the_same(num_dims, gps, monkeypatch):
    from svdkl.gp.fast import lattice_marginals as cpu_lattice
    from svdkl.gp.fast import line_loops as cpu_line

    monkeypatch.setattr(cpu_line, "POINTS_PER_THREAD", 8)
    monkeypatch.setattr(cpu_lattice, "POINTS_PER_THREAD", {2: 8, 3: 8})
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    compare(make(num_dims, 50, gps), "cpu")


@each_dimension
def test_concurrent_calls(num_dims):
    """Prediction may be called from many threads at once, and so may training."""
    inputs = make(num_dims, 100)

    def call() -> list[torch.Tensor]:
        outputs = inputs.by("cpu")
        return [*outputs, *gradients(outputs, inputs.tensors)]

    expected = call()
    results: list[list[torch.Tensor]] = []
    threads = [threading.Thread(target=lambda: results.extend(call() for _ in range(5))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 40
    for result in results:
        assert all(torch.equal(one, other) for one, other in zip(result, expected, strict=True))


def twice(x):
    return x + x


def test_loops_are_kept_on_disk_or_compiled_where_nothing_can_be_written(tmp_path, monkeypatch):
    import numba
    from numba.core import caching

    from svdkl.gp.fast.compiling import jit

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    kept = jit(twice)
    assert kept(2) == 4
    assert list(tmp_path.rglob("*.nbc"))
    assert kept.stats.cache_path.startswith(str(tmp_path))

    def refuse(self):
        raise PermissionError("Read-only file system")

    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", refuse)
    alone = jit(twice)
    assert alone(2) == 4
    assert alone.stats.cache_path is None


# ------------------------------------------------------------------------------------------------------------- choice


@each_dimension
def test_auto_takes_the_compiled_loop(num_dims):
    inputs = make(num_dims)
    assert "CPU" in inputs.by("auto")[0].grad_fn.name()
    assert "CPU" not in inputs.by("eager")[0].grad_fn.name()


def test_auto_takes_triton_on_gpus_where_it_is_installed(monkeypatch):
    class OnGPU:
        device = torch.device("cuda")
        shape = (5, 2, 3)

    for installed, name in ((True, "triton"), (False, "eager")):
        monkeypatch.setattr(backends, "_has_triton", lambda found=installed: found)
        assert inspect.unwrap(backends._fastest)(OnGPU()) == name  # unwrapped: there is no tensor to check


def test_more_than_three_dimensions_are_eager():
    sizes = (4, 4, 5, 4)
    values, positions = torch.randn(2, *sizes), torch.rand(6, 2, 4)
    roots = tuple(torch.randn(4, 4, 2, size - 1) for size in sizes)
    for one, other in zip(*(marginals(values, roots, positions, name) for name in ("auto", "eager")), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(ValueError, match=r"^Expected GPs of at most 3 dimensions .* got 4: use"):
        marginals(values, roots, positions, "cpu")


def test_a_backend_that_cannot_be_used_is_refused(monkeypatch):
    inputs = make(2)
    with pytest.raises(ValueError, match=r"^Expected interpolation to be one of auto, .*, got 'cuda'\.$"):
        inputs.by("cuda")
    with pytest.raises(ValueError, match=r"^Expected tensors on cpu for interpolation='cpu', got meta: use"):
        inputs.map(lambda x: x.to("meta")).by("cpu")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(backends, "_has_triton", lambda: True)
    with pytest.raises(ValueError, match=r"^Expected tensors on cuda for interpolation='triton', got cpu: use"):
        inputs.by("triton")
    monkeypatch.setattr(backends, "_has_triton", lambda: False)
    with pytest.raises(ValueError, match=r"^Expected triton to be installed"):
        GPHead(4, 2, interpolation="triton")


@pytest.mark.parametrize("dims_per_gp", [1, 2])
def test_a_head_reads_with_the_backend_that_it_was_given(dims_per_gp):
    h, found = torch.randn(20, 4), {}
    for name in ("auto", "cpu", "eager"):
        head = GPHead(4, 2, dims_per_gp=dims_per_gp, grid_size=8, interpolation=name)
        found[name] = head.gps.marginals(h)
        assert ("CPU" in found[name].variance.grad_fn.name()) == (name != "eager")
    for name in ("cpu", "eager"):
        for one, other in zip(found[name], found["auto"], strict=True):
            close(one, other, "float32")
