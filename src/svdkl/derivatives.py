"""Second derivatives of functions whose backward pass is written by hand."""

from collections.abc import Callable, Sequence

import torch

from svdkl.shapes import Tensor


def differentiable_gradients(
    eager: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], gradients: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again, which only the eager path has. None for inputs that need none."""
    wanted = [x for x in inputs if x.requires_grad]
    # With some inputs frozen, an output may depend on none of the others.
    pairs = [(y, grad) for y, grad in zip(eager(*inputs), gradients, strict=True) if y.requires_grad]
    outputs, cotangents = zip(*pairs, strict=True)
    found = iter(torch.autograd.grad(outputs, wanted, cotangents, create_graph=True))
    return tuple(next(found) if x.requires_grad else None for x in inputs)
