"""Predictions row by row, with the same bits whatever other rows are asked for at the same time.

From a trained model to functions of encoded rows, with what all rows share computed once.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

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


def likelihood_of(model: SVDKL) -> Likelihood:
    """P(y | g)."""
    return model.head.likelihood


def latents_of(model: SVDKL) -> Callable[[Tensor], LatentPoints]:
    """To the points that stand for the outputs of each row."""
    state = _state(model)
    return lambda x: model.latents(x, state)


def log_predictive_of(model: SVDKL) -> Callable[[Tensor, Tensor], tuple[Float[Tensor, "B"]]]:
    """To log p(y_i | x_i)."""
    state = _state(model)
    return lambda x, y: (model.log_predictive(x, y, state),)


def uncertainty_of(model: SVDKL) -> Callable[[Tensor], Uncertainty]:
    """To where the uncertainty of each row comes from."""
    state = _state(model)
    return lambda x: model.uncertainty(x, state)


def latent_gaussian_of(model: SVDKL) -> Callable[[Tensor], tuple[Float[Tensor, "B C"], Float[Tensor, "B C"]]]:
    """To mean and variance of the outputs of each row."""
    state = _state(model)
    return lambda x: model.latent_gaussian(x, state)


def latent_draws_of(model: SVDKL, num_samples: int, seed: int) -> Callable[[Tensor], tuple[Float[Tensor, "B C T"]]]:
    """To draws of the outputs of each row, each draw of one function, the same for whatever rows are asked for."""
    state = _state(model)

    def draws(x: Tensor) -> tuple[Tensor]:
        generator = torch.Generator(x.device).manual_seed(seed)
        return (model.latent_draws(x, num_samples, generator, state).movedim(0, -1),)

    return draws


@torch.inference_mode()
def _state(model: SVDKL) -> HeadState | None:
    return model.state()
