"""Predictions row by row, with the same bits whatever other rows are asked for at the same time.

From a trained model to functions of encoded rows, with what all rows share computed once.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from svdkl.estimators.options import Model
from svdkl.gp.additive import HeadState
from svdkl.gp.prediction import LatentPoints, Uncertainty
from svdkl.likelihoods import Likelihood
from svdkl.model import SVDKL
from svdkl.shapes import Float, Tensor

ROWS_AT_ONCE = 512  # a matrix product of one shape rounds a row in one way; other shapes may round it in others


@torch.inference_mode()
def in_equal_parts(
    function: Callable[..., Sequence[Tensor]], device: torch.device, *tensors: Tensor
) -> list[npt.NDArray[Any]]:
    """What a function of rows gives, its parts joined along the rows, as float64.

    It is always called on the same number of rows: the last part is filled up with copies of its last row.
    """
    parts: list[list[Tensor]] = []
    for part in zip(*(tensor.split(ROWS_AT_ONCE) for tensor in tensors), strict=True):
        size = len(part[0])
        results = function(*(_filled(tensor).to(device) for tensor in part))
        parts.append([result[:size].cpu().double() for result in results])
    return [torch.cat(columns).numpy() for columns in zip(*parts, strict=True)]


def join(blocks: list[list[npt.NDArray[Any]]]) -> list[npt.NDArray[Any]]:
    """Results of several blocks of rows as one."""
    return [np.concatenate(columns) for columns in zip(*blocks, strict=True)]


def _filled(part: Tensor) -> Tensor:
    missing = ROWS_AT_ONCE - len(part)
    return torch.cat([part, part[-1:].expand(missing, *part.shape[1:])]) if missing else part


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
