"""Swap the last linear layer of a trained network for a Gaussian process head."""

import copy
from typing import Any

import torch
from torch import nn

from svdkl.gp.head import GPHead
from svdkl.model import SVDKL
from svdkl.shapes import Tensor
from svdkl.training.warm_start import start_from_linear

_NORMALISERS = (nn.Softmax, nn.LogSoftmax, nn.Sigmoid, nn.LogSigmoid)


def replace_classifier(model: nn.Module, x_sample: Any, likelihood: Any = None, **head_options: Any) -> SVDKL:
    """Turn a trained network into a :class:`~svdkl.model.SVDKL` that starts with the same class probabilities.

    Parameters
    ----------
    model
        A network that returns the output of its last ``nn.Linear``, whatever that is called and however deep it sits; a
        softmax module after it is taken off, too. The network is copied, not changed.
    x_sample
        A batch of inputs as the network takes them, a few hundred rows or more: it shows which layer comes last, and
        sets the ranges of the features.
    likelihood
        p(y | g); None for "softmax", or for "bernoulli" where there is a single output.
    **head_options
        Options of :class:`~svdkl.gp.head.GPHead`.

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    >>> x, y = torch.randn(100, 8), torch.randint(3, (100,))
    >>> model = replace_classifier(network, x)
    >>> (-model.elbo(x, y, num_data=50_000).value).backward()
    """
    net = copy.deepcopy(model)
    modes = {id(module): module.training for module in net.modules()}
    net.eval()
    name, layer, features, output, closing = _trace(net, x_sample)
    if features.dim() != 2:
        raise ValueError(
            f"Expected the last nn.Linear ({name!r}) to read features of shape (rows, features), got "
            f"{tuple(features.shape)}: pool or flatten them before the layer."
        )
    if len(features) == 0:
        raise ValueError("Expected x_sample with at least one row, a few hundred for good ranges; got none.")
    if not bool(torch.isfinite(features).all()):
        row = int((~torch.isfinite(features)).any(1).nonzero()[0])
        raise ValueError(
            f"Expected x_sample to give finite features, got NaN or infinity in row {row}: check inputs and weights."
        )
    _check_closing(name, layer, features, output, [net.get_submodule(later) for later in closing])
    kinds = {type(net.get_submodule(later)) for later in closing}
    for replaced in (layer, *(net.get_submodule(later) for later in closing)):
        _replace_everywhere(net, replaced, nn.Identity())
    with torch.no_grad():
        stripped = net(x_sample)
    if not isinstance(stripped, Tensor) or not torch.equal(stripped, features):
        raise ValueError(
            f"Expected a network that uses its last nn.Linear ({name!r}) once and returns its output as it is; without "
            f"the layer this one does not return the layer's inputs: build SVDKL(net, ...) from the part before it."
        )

    if likelihood is None:
        by_label = layer.out_features == 1 or kinds & {nn.Sigmoid, nn.LogSigmoid}
        likelihood = "bernoulli" if by_label else "softmax"
    head = GPHead(layer.in_features, layer.out_features, likelihood, **head_options)
    head.to(device=layer.weight.device, dtype=torch.promote_types(layer.weight.dtype, torch.float32))
    bias = layer.bias.detach() if layer.bias is not None else None
    start_from_linear(head, features.detach().to(head.mixing.weight.dtype), layer.weight.detach(), bias)
    for module in net.modules():
        module.training = modes.get(id(module), model.training)
    head.train(model.training)
    result = SVDKL(net, head)
    result.training = model.training
    return result


def _check_closing(name: str, layer: nn.Linear, features: Tensor, output: Any, closing: list[nn.Module]) -> None:
    """Refuse a network that does not return the layer's output, or a softmax or sigmoid of it."""
    with torch.no_grad():
        expected = layer(features)
        for module in closing:
            expected = module(expected)
    same_size = isinstance(output, Tensor) and output.numel() == expected.numel()
    if not same_size or not torch.equal(output.reshape(expected.shape), expected):
        got = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise ValueError(
            f"Expected a network that returns the output of its last nn.Linear ({name!r}), of shape "
            f"{tuple(expected.shape)}; this one goes on after it and returns {got} with other values: remove what "
            f"follows the layer, or build SVDKL(net, ...) from the part before it."
        )


def _trace(net: nn.Module, x_sample: Any) -> tuple[str, nn.Linear, Tensor, Any, list[str]]:
    """Run the network to find the linear layer called last, its inputs, and the normalisers called after it."""
    calls: list[tuple[str, nn.Module, Any]] = []
    handles = []
    for name, module in net.named_modules():
        if isinstance(module, (nn.Linear, *_NORMALISERS)):

            def record(module: nn.Module, inputs: Any, named: Any, output: Any, name: str = name) -> None:
                calls.append((name, module, inputs[0] if inputs else named["input"]))

            handles.append(module.register_forward_hook(record, with_kwargs=True))
    try:
        with torch.no_grad():
            output = net(x_sample)
    finally:
        for handle in handles:
            handle.remove()
    linear = [i for i, (_, module, _) in enumerate(calls) if isinstance(module, nn.Linear)]
    if not linear:
        raise ValueError(f"Expected a network with an nn.Linear layer, got {type(net).__name__}, which calls none.")
    last = linear[-1]
    name, module, features = calls[last]
    assert isinstance(module, nn.Linear)
    return name, module, features, output, [later for later, _, _ in calls[last + 1 :]]


def _replace_everywhere(net: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Replace a module under every name that it has."""
    if old is net:
        raise ValueError(
            "Expected a network with layers before its last nn.Linear, got a single nn.Linear: use GPHead."
        )
    for parent in list(net.modules()):
        for name, child in list(parent._modules.items()):  # named_children would give each module once
            if child is old:
                setattr(parent, name, new)
