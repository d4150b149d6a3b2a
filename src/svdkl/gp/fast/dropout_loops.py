"""The compiled loop of dropout for CPUs. Hashes of places are its random numbers: they take vectors at a time."""

import numpy as np
import torch

from svdkl.gp.fast.compiling import jit
from svdkl.shapes import Tensor

FIRST = np.uint32(0x7FEB352D)  # the first multiplier of Wellons' "lowbias32" hash, found by search for the least bias
SECOND = np.uint32(0x846CA68B)  # the second multiplier of the same hash


@jit
def _mixed(bits):
    bits = np.uint32((bits ^ (bits >> np.uint32(16))) * FIRST)
    bits = np.uint32((bits ^ (bits >> np.uint32(15))) * SECOND)
    return bits ^ (bits >> np.uint32(16))


@jit
def _fill(out, seed, other_seed, dropped, scale):
    # A second round with another seed: otherwise two draws could hold the same numbers in another order.
    for place in range(len(out)):
        bits = _mixed(_mixed(np.uint32(place) ^ seed) ^ other_seed)
        out[place] = scale if bits >= dropped else 0


def random_scales(like: Tensor, chance: float) -> Tensor:
    """Draw dropout's factors for a tensor, independently: 0 with the chance, else 1 / (1 - chance)."""
    scales = np.empty(like.shape, np.float32 if like.dtype == torch.float32 else np.float64)
    seeds = map(np.uint32, torch.randint(2**32, (2,), device="cpu").tolist())
    _fill(scales.reshape(-1), *seeds, np.uint32(chance * 2**32), scales.dtype.type(1 / (1 - chance)))
    return torch.from_numpy(scales)
