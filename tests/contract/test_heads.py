"""What every head promises to a model, whichever it is."""

from collections.abc import Callable

import pytest
import torch
from refusals import refused
from tolerances import close
from torch import nn

from svdkl import SVDKL, GPHead
from svdkl.gp.head_protocol import Head
from svdkl.training.linear_head import LinearHead

Q, C, ROWS = 4, 3, 9
HEADS: dict[str, Callable[[str], Head]] = {
    "linear": lambda likelihood: LinearHead(Q, C, likelihood),
    "fixed": lambda likelihood: LinearHead.fixed(C, likelihood),
    "gps": lambda likelihood: GPHead(Q, C, likelihood, grid_size=8),
    "groups": lambda likelihood: GPHead(Q, C, likelihood, groups=[(0, 1), (2,), (3,)], grid_size=8),
}


@pytest.fixture(params=HEADS)
def build(request: pytest.FixtureRequest) -> Callable[[str], tuple[SVDKL, torch.Tensor]]:
    def model_and_rows(likelihood: str) -> tuple[SVDKL, torch.Tensor]:
        torch.manual_seed(0)
        head = HEADS[request.param](likelihood)
        return SVDKL(nn.Linear(2, head.num_features), head), torch.randn(ROWS, 2)

    return model_and_rows


def test_answers_about_classes(build) -> None:
    model, x = build("softmax")
    y, h, state = torch.arange(ROWS) % C, model.net(x), model.head.state()
    probabilities = model.head.predict_proba(h, state)
    close(probabilities.sum(1), torch.ones(ROWS), "float32")
    assert torch.equal(probabilities, model.predict_proba(x))
    assert torch.equal(model.head.log_predictive(h, y, state), model.log_predictive(x, y))
    close(model.log_predictive(x, y), probabilities[torch.arange(ROWS), y].log(), "float32")
    close(model(x).softmax(1), probabilities, "float32")
    refused(lambda: model.predict(x), "predict_proba")


def test_answers_about_real_targets(build) -> None:
    model, x = build("gaussian")
    y, h, state = torch.randn(ROWS, C), model.net(x), model.head.state()
    prediction = model.head.predict(h, state)
    for ours, again in zip(prediction, model.predict(x), strict=True):
        assert torch.equal(ours, again)
    mean, variance = model.head.latent_gaussian(h, state)
    close(prediction.mean, mean, "float32")
    close(prediction.model_variance, variance, "float32")
    close(model(x), mean, "float32")
    expected = torch.distributions.Normal(mean, prediction.variance.sqrt()).log_prob(y).sum(1)
    close(model.head.log_predictive(h, y, state), expected, "float32")
    refused(lambda: model.predict_proba(x), "predict")


def test_latents(build) -> None:
    model, x = build("gaussian")
    h, state = model.net(x), model.head.state()
    mean, variance = model.head.latent_gaussian(h, state)
    points = model.head.latents(h, state)
    close(points.average(points.points), mean, "float32")
    close(points.average((points.points - mean).square()), variance, "float32")
    draws = model.head.latent_draws(h, 5, torch.Generator().manual_seed(0), state)
    assert draws.shape == (5, ROWS, C)
    assert torch.equal(draws, model.head.latent_draws(h, 5, torch.Generator().manual_seed(0)))


def test_a_step_reaches_all_parameters_of_all_roles(build) -> None:
    model, x = build("gaussian")
    elbo = model.elbo(x, torch.randn(ROWS, C), num_data=100, generator=torch.Generator().manual_seed(0))
    close(elbo.value, elbo.expected_log_likelihood - elbo.kl, "float32")
    (-elbo.value).backward()
    roles = [parameter for role in model.head.roles() for parameter in role]
    assert {id(parameter) for parameter in roles} == {id(parameter) for parameter in model.head.parameters()}
    assert all(parameter.grad is not None for parameter in roles if parameter.requires_grad)


def test_a_model_is_a_network_and_a_head() -> None:
    head = GPHead(Q, C, grid_size=8)
    model = SVDKL(nn.Linear(2, Q), head)
    assert model.head is head
    assert model.gp_head is head
    for short in (SVDKL(nn.Linear(2, Q), Q, C, grid_size=8), SVDKL(nn.Linear(2, Q), num_features=Q, num_outputs=C)):
        assert (short.head.num_features, short.head.num_outputs) == (Q, C)
    refused(lambda: SVDKL(nn.Linear(2, Q), head, C), "head alone")
    plain = SVDKL(nn.Linear(2, Q), LinearHead(Q, C))
    for ask in (lambda: plain.uncertainty(torch.randn(3, 2)), lambda: plain.set_ranges(torch.randn(3, 2))):
        refused(ask, "Gaussian processes", "LinearHead")
