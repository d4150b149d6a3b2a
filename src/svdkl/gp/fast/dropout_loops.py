"""The factors of dropout, each by a hash of its place: the compiled loop for CPUs."""

from typing import no_type_check

import numpy as np
import torch

from svdkl.gp.fast.compiling import jit
from svdkl.shapes import Tensor

FIRST, SECOND = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)  # odd, and known to mix 32 bits well


@jit
@no_type_check
def _mixed(bits):
    bits = np.uint32((bits ^ (bits >> np.uint32(16))) * FIRST)
    bits = np.uint32((bits ^ (bits >> np.uint32(15))) * SECOND)
    return bits ^ (bits >> np.uint32(16))


@jit
@no_type_check
def _fill(out, seed, other_seed, dropped, scale):
    # A second round with a seed of its own, so that no two draws go through the same numbers in another order.
    for place in range(len(out)):
        bits = _mixed(_mixed(np.uint32(place) ^ seed) ^ other_seed)
        out[place] = scale if bits >= dropped else 0


def random_scales(like: Tensor, chance: float) -> Tensor:
    """Zero with the chance, else the inverse of the other chance, independently for each number of a tensor."""
    scales = np.empty(like.shape, np.float32 if like.dtype == torch.float32 else np.float64)
    seeds = map(np.uint32, torch.randint(2**32, (2,), device="cpu").tolist())
    _fill(scales.reshape(-1), *seeds, np.uint32(chance * 2**32), scales.dtype.type(1 / (1 - chance)))
    return torch.from_numpy(scales)
