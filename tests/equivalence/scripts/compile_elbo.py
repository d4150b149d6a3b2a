"""Compile the ELBO of models without graph breaks; fail unless value and gradients are those of eager mode.

usage: python compile_elbo.py backend '{"name": {"num_outputs": 3, ...}, ...}'
"""

import json
import sys

import torch
from tolerances import close

from svdkl import MLP, SVDKL


def check(name: str, backend: str, options: dict) -> None:
    """Compare a model's value and gradients, one parameter at a time."""
    torch.manual_seed(0)
    model = SVDKL(MLP(5, (8,), 6), num_features=6, **options)
    with torch.no_grad():
        for bank in model.head.gps.banks:
            bank.gps.posterior.mean.normal_()
    num_outputs = model.head.num_outputs
    x = torch.randn(40, 5)
    y = torch.randint(num_outputs, (40,)) if model.head.likelihood.is_classifier else torch.randn(40, num_outputs)

    def elbo(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return model.elbo(x, y, num_data=400.0).value

    results = []
    torch._dynamo.reset()
    for function in (torch.compile(elbo, fullgraph=True, backend=backend), elbo):
        torch.manual_seed(1)  # the same noise
        value = function(x, y)
        results.append([value, *torch.autograd.grad(value, list(model.parameters()))])
    for part, actual, expected in zip(["value", *dict(model.named_parameters())], *results, strict=True):
        assert expected.any(), f"{name}: {part} is zero and proves nothing"
        try:
            close(actual, expected, "float32")
        except AssertionError as error:
            raise AssertionError(f"{name}: {part}: {error}") from None


for each, its_options in json.loads(sys.argv[2]).items():
    check(each, sys.argv[1], its_options)
