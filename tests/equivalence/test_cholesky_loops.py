"""The compiled loops over a Cholesky factor of q(u) must equal the tensor operations."""

import pytest
import torch
from tolerances import close

from svdkl.gp.fast import compiling as compiled
from svdkl.gp.fast.cholesky_loops import CPUColouredGram, CPUTraceAndLogDet
from svdkl.gp.fast.compiling import on_threads
from svdkl.gp.posterior import AxisFactor, CholeskyFactor


def inputs(size: int = 6, gps: int = 3, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    """R and the raw parameter; what stands above the latter's diagonal must not matter."""
    root = torch.randn(gps, size, size, dtype=torch.float64).tril_()
    raw = torch.randn(gps, size, size, dtype=dtype)
    if gps:
        raw[0, 0, 0], raw[0, -1, -1] = 30, -30  # softplus at either end
    return [root.requires_grad_(), raw.requires_grad_()]


def factor_of(raw: torch.Tensor) -> CholeskyFactor:
    factor = CholeskyFactor(*raw.shape[:2])
    del factor.raw
    factor.raw = raw
    return factor


def eager_gram(root: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
    return AxisFactor.coloured_gram(factor_of(raw), root.tril(), 4)


def eager_terms(raw: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return AxisFactor.trace_and_log_det(factor_of(raw))


def compare(actual, expected, tensors: list[torch.Tensor], kind: str = "float64") -> None:
    cotangents = [torch.randn_like(x) for x in expected]
    for one, other in zip(actual, expected, strict=True):
        assert one.dtype == other.dtype
        close(one, other, kind)
    found, right = (torch.autograd.grad(x, tensors, cotangents) for x in (actual, expected))
    for one, other, x in zip(found, right, tensors, strict=True):
        assert one.dtype == x.dtype
        close(one, other, kind)


each_type = pytest.mark.parametrize(("dtype", "kind"), [(torch.float64, "float64"), (torch.float32, "float32")])


@each_type
@pytest.mark.parametrize(("size", "gps"), [(4, 3), (5, 1), (17, 2), (6, 0)])
def test_coloured_gram(size, gps, dtype, kind):
    tensors = inputs(size, gps, dtype)
    compare([CPUColouredGram.apply(*tensors)], [eager_gram(*tensors)], tensors, kind)


@each_type
@pytest.mark.parametrize(("size", "gps"), [(4, 3), (17, 1), (6, 0)])
def test_trace_and_log_det(size, gps, dtype, kind):
    raw = inputs(size, gps, dtype)[1]
    compare(CPUTraceAndLogDet.apply(raw), eager_terms(raw), [raw], kind)


@pytest.mark.parametrize("frozen", [0, 1])
def test_one_of_both_may_be_frozen(frozen):
    tensors = inputs()
    everything = torch.autograd.grad(CPUColouredGram.apply(*tensors).sin().sum(), tensors)
    tensors[frozen].requires_grad_(False)
    (alone,) = torch.autograd.grad(CPUColouredGram.apply(*tensors).sin().sum(), tensors[1 - frozen])
    assert torch.equal(alone, everything[1 - frozen])


def test_arrays_that_are_not_side_by_side():
    tensors = [x.detach().permute(2, 1, 0).contiguous().permute(2, 1, 0).requires_grad_() for x in inputs()]
    compare([CPUColouredGram.apply(*tensors)], [eager_gram(*tensors)], tensors)
    compare(CPUTraceAndLogDet.apply(tensors[1]), eager_terms(tensors[1]), tensors[1:])


def test_several_threads_give_the_same(monkeypatch):
    tensors = inputs(gps=4)
    expected = [CPUColouredGram.apply(*tensors), *CPUTraceAndLogDet.apply(tensors[1])]
    counts = []
    monkeypatch.setattr(compiled, "ENTRIES_PER_THREAD", 1)
    monkeypatch.setattr(compiled, "on_threads", lambda tasks, count: counts.append(count) or on_threads(tasks, count))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    compare([CPUColouredGram.apply(*tensors), *CPUTraceAndLogDet.apply(tensors[1])], expected, tensors)
    assert set(counts) == {3}


@pytest.mark.parametrize("place", [0, 1])
def test_an_error_in_a_thread_is_raised(place):
    def fail() -> None:
        raise MemoryError("no room")

    tasks = [lambda: None, lambda: None]
    tasks[place] = fail
    with pytest.raises(MemoryError, match="no room"):
        on_threads(tasks, 2)


def test_twice_differentiated():
    tensors = inputs(4, 1)
    with torch.no_grad():
        tensors[1].clamp_(-2, 2)

    def gram(root: torch.Tensor, raw: torch.Tensor) -> torch.Tensor:
        return CPUColouredGram.apply(root.tril(), raw)

    assert torch.autograd.gradcheck(gram, tensors)
    assert torch.autograd.gradgradcheck(gram, tensors)
    assert torch.autograd.gradcheck(CPUTraceAndLogDet.apply, tensors[1])
    assert torch.autograd.gradgradcheck(CPUTraceAndLogDet.apply, tensors[1])


def test_traced_code_takes_tensor_operations(monkeypatch):
    factor = CholeskyFactor(2, 6)
    root = torch.eye(6, dtype=torch.float64).expand(2, 6, 6)
    for traced in (False, True):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda answer=traced: answer)
        for result in (factor.coloured_gram(root, 4), *factor.trace_and_log_det()):
            assert ("CPU" in result.grad_fn.name()) != traced


@pytest.mark.parametrize(("size", "loops"), [(255, True), (256, False)])
def test_long_axes_take_tensor_operations(size, loops):
    root = torch.eye(size, dtype=torch.float64).expand(1, size, size)
    assert ("CPU" in CholeskyFactor(1, size).coloured_gram(root, 4).grad_fn.name()) == loops


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_takes_tensor_operations(dtype):
    factor = CholeskyFactor(2, 6).to(dtype)
    root = torch.eye(6, dtype=torch.float64).expand(2, 6, 6)
    for result in (factor.coloured_gram(root, 4), *factor.trace_and_log_det()):
        assert result.dtype == torch.float64
        assert "CPU" not in result.grad_fn.name()
