"""A linear layer as a head: its bound is the mean log likelihood, and it is sure of its outputs."""

import pytest
import torch
from refusals import refused
from tolerances import close
from torch.nn.functional import linear, log_softmax

from svdkl.training.linear_head import LinearHead


def example(likelihood: str, num_outputs: int = 3) -> tuple[LinearHead, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    head, h = LinearHead(4, num_outputs, likelihood).double(), torch.randn(7, 4, dtype=torch.float64)
    return head, h, torch.arange(7) % 3 if likelihood == "softmax" else torch.randn(7, num_outputs).double()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("likelihood", ["softmax", "gaussian"])
def test_the_bound_is_the_mean_log_likelihood(likelihood: str, weighted: bool) -> None:
    head, h, y = example(likelihood)
    weight = torch.rand(7, dtype=torch.float64) if weighted else None
    elbo = head.elbo(h, y, num_data=50, sample_weight=weight)

    A, b = (parameter.detach().clone().requires_grad_() for parameter in head.mixing.parameters())
    g = linear(h, A, b)
    if likelihood == "softmax":
        log_prob = log_softmax(g, 1)[torch.arange(7), y]
    else:
        noise = head.likelihood.log_noise.detach().exp()
        log_prob = torch.distributions.Normal(g, noise).log_prob(y).sum(1)
    expected = (log_prob if weight is None else weight * log_prob).sum() / 7
    close(elbo.value, expected)
    close(elbo.expected_log_likelihood, expected)
    assert elbo.kl == 0
    gradients = torch.autograd.grad(elbo.value, list(head.mixing.parameters()))
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, [A, b]), strict=True):
        close(ours, theirs)
    close(head.log_predictive(h, y), log_prob)


def test_it_is_sure_of_its_outputs() -> None:
    head, h, _ = example("gaussian")
    mean, variance = head.latent_gaussian(h)
    assert torch.equal(mean, head.mixing(h))
    assert not variance.any()
    assert torch.equal(head.latent_draws(h, 5), mean.expand(5, -1, -1))
    prediction = head.predict(h)
    close(prediction.mean, mean)
    assert not prediction.model_variance.any()
    assert head.state() is None
    refused(lambda: head.uncertainty(h), "GPHead", "LinearHead")


def test_the_fixed_one_passes_features_on() -> None:
    head, h = LinearHead.fixed(3), torch.randn(7, 3)
    assert torch.equal(head.latent_gaussian(h)[0], h)
    close(head.predict_proba(h), h.softmax(1), "float32")
    assert not any(parameter.requires_grad for parameter in head.parameters())


def test_minibatches_that_have_no_bound_are_refused() -> None:
    head, h, y = example("softmax")
    refused(lambda: head.elbo(h[:0], y[:0], 50), "at least one row")
    refused(lambda: head.elbo(h, y + 1, 50), "labels")
    refused(lambda: head.elbo(h, y, 0), "num_data")
    refused(lambda: head.elbo(h, y, 50, torch.full((7,), -1.0)), "sample weights")
    refused(lambda: head.predict(h), "predict_proba")
    refused(lambda: LinearHead(4, 3, "gaussian").predict_proba(h.float()), "predict")
