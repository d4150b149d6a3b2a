"""From a trained model to functions of encoded rows, with what all rows share computed once."""

from collections.abc import Callable

import torch

from svdkl.additive import HeadState
from svdkl.estimators.settings import Model
from svdkl.likelihoods import Likelihood
from svdkl.model import SVDKL
from svdkl.prediction import LatentPoints
from svdkl.shapes import Float, Tensor
from svdkl.uncertainty import Uncertainty


def likelihood_of(model: Model) -> Likelihood:
    """P(y | g)."""
    return model.head.likelihood if isinstance(model, SVDKL) else model.likelihood


def latents_of(model: Model) -> Callable[[Tensor], LatentPoints]:
    """To the points that stand for the outputs of each row."""
    if not isinstance(model, SVDKL):
        return model.latents
    head, net, state = model.head, model.net, _state(model)
    return lambda x: head.latents(net(x), state)


def log_predictive_of(model: Model) -> Callable[[Tensor, Tensor], tuple[Float[Tensor, "B"]]]:
    """To log p(y_i | x_i)."""
    if not isinstance(model, SVDKL):
        return lambda x, y: (model.log_predictive(x, y),)
    head, net, state = model.head, model.net, _state(model)
    return lambda x, y: (head.log_predictive(net(x), y, state),)


def uncertainty_of(model: SVDKL) -> Callable[[Tensor], Uncertainty]:
    """To where the uncertainty of each row comes from."""
    head, net, state = model.head, model.net, _state(model)
    return lambda x: head.uncertainty(net(x), state)


def latent_gaussian_of(model: Model) -> Callable[[Tensor], tuple[Float[Tensor, "B C"], Float[Tensor, "B C"]]]:
    """To mean and variance of the outputs of each row."""
    if not isinstance(model, SVDKL):
        return lambda x: ((point := model.latents(x).points[0]), torch.zeros_like(point))
    head, net, state = model.head, model.net, _state(model)
    return lambda x: head.mixing.gaussian(*head.marginals(net(x), state))


def latent_draws_of(model: Model, num_samples: int, seed: int) -> Callable[[Tensor], tuple[Float[Tensor, "B C T"]]]:
    """To draws of the outputs of each row, each draw of one function, the same for whatever rows are asked for."""
    if not isinstance(model, SVDKL):
        return lambda x: (model.latents(x).points[0].unsqueeze(-1).expand(-1, -1, num_samples),)
    head, net, state = model.head, model.net, _state(model)

    def draws(x: Tensor) -> tuple[Tensor]:
        generator = torch.Generator(x.device).manual_seed(seed)
        f = head.sample_functions(net(x), num_samples, generator, state)
        return (head.mixing(f).movedim(0, -1),)

    return draws


@torch.inference_mode()
def _state(model: SVDKL) -> HeadState:
    return model.head.state()
