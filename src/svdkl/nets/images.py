"""Modules that come first in a network for images: bytes to floats of unit variance, and random crops."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from torch.nn.functional import pad

from svdkl.shapes import Float, Tensor

IMAGES_AT_ONCE = 1024  # images are eight times larger as float64: a block of CIFAR-10 takes 25 MB


class Standardise(nn.Module):
    """Pixels (B, K, H, W), bytes or floats, become floats of mean 0 and deviation 1 in each of the K channels.

    An estimator keeps images of uint8 as bytes, a quarter of the memory of floats, if its network has this module.
    ``mean`` and ``std`` are of each channel, in the unit of the pixels.

    Examples
    --------
    >>> images = np.random.default_rng(0).integers(0, 256, (60, 3, 32, 32), dtype=np.uint8)
    >>> labels = images.mean((1, 2, 3)) > 127.5
    >>> net = nn.Sequential(Standardise.of(images), CropAndFlip(padding=4), CifarQuick())
    >>> model = SVDKLClassifier(net=net, max_iter=2).fit(images, labels)
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        if len(mean) != len(std) or not all(deviation > 0 for deviation in std):
            raise ValueError(f"Expected a mean and a deviation above 0 for each channel, got {mean} and {std}.")
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32)[:, None, None])
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32)[:, None, None])

    @classmethod
    def of(cls, images: npt.NDArray[np.uint8]) -> "Standardise":
        """Take mean and deviation from images (N, K, H, W); a constant channel gets deviation 1."""
        if images.ndim != 4 or len(images) == 0:
            raise ValueError(f"Expected images of shape (N, K, H, W), at least one, got {images.shape}.")
        total = squares = np.zeros(images.shape[1])
        for start in range(0, len(images), IMAGES_AT_ONCE):
            block = images[start : start + IMAGES_AT_ONCE].astype(np.float64)
            total, squares = total + block.sum((0, 2, 3)), squares + np.square(block).sum((0, 2, 3))
        pixels = images.size / images.shape[1]
        mean = total / pixels
        std = np.sqrt(np.maximum(squares / pixels - np.square(mean), 0))
        return cls(mean.tolist(), np.where(std > 1e-6, std, 1.0).tolist())

    def forward(self, x: Tensor) -> Float[Tensor, "B K H W"]:
        """Return floats of mean 0 and deviation 1."""
        return (x.to(self.mean.dtype) - self.mean) / self.std


def reads_bytes(net: nn.Module) -> bool:
    """Tell whether a network takes images as bytes."""
    return any(isinstance(module, Standardise) for module in net.modules())


class CropAndFlip(nn.Module):
    """In training, each image gets a margin of zeros, is cropped at random, and mirrored half of the time.

    It draws from torch's own generator and, like dropout, does nothing outside training. After
    :class:`~svdkl.nets.images.Standardise` the margin has the mean colour. Its width is ``padding``, the farthest shift
    in each direction; ``flip`` says whether images are mirrored left to right.
    """

    def __init__(self, padding: int, flip: bool = True) -> None:
        super().__init__()
        if padding < 0:
            raise ValueError(f"Expected padding of at least 0 pixels, got {padding}.")
        self.padding, self.flip = padding, flip

    def extra_repr(self) -> str:
        """Describe the parameters for ``print``."""
        return f"padding={self.padding}, flip={self.flip}"

    def forward(self, x: Float[Tensor, "B K H W"]) -> Float[Tensor, "B K H W"]:
        """Return images of the same size."""
        if not self.training:
            return x
        count, channels, height, width = x.shape
        margin = self.padding
        top, left = torch.randint(2 * margin + 1, (2, count, 1), device=x.device)
        rows = top + torch.arange(height, device=x.device)
        columns = left + torch.arange(width, device=x.device)
        if self.flip:
            mirrored = torch.rand(count, 1, device=x.device) < 0.5
            columns = torch.where(mirrored, columns.flip(1), columns)
        # The source of each pixel, alike in all channels, so that one gather serves the whole batch.
        places = rows[:, :, None] * (width + 2 * margin) + columns[:, None, :]
        places = places.view(count, 1, -1).expand(-1, channels, -1)
        return pad(x, [margin] * 4).flatten(2).gather(2, places).view_as(x)
