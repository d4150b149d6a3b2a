"""Predictions row by row, with the same bits whatever other rows are asked for at the same time."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from svdkl.shapes import Tensor

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
