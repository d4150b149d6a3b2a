"""Residual networks for small images (He et al., 2016), in the form that the paper has for CIFAR-10."""

import torch
from torch import nn
from torch.nn.functional import pad

from svdkl.nets.convnet import start_weights
from svdkl.shapes import Float, Tensor


class ResNet(nn.Module):
    """A convolution, three groups of residual blocks, and the mean over the image.

    The second and the third group halve the image and double the width. Shortcuts have no parameters (the paper's
    option A): where a block halves the image, they take every other pixel and fill the new channels with zeros.

    ``depth`` counts 6 n + 2 layers, the head as one: 20 for ResNet-20. The first group has ``width`` channels, and the
    features are four times as many. Images may have any size.
    """

    def __init__(self, depth: int = 20, in_channels: int = 3, width: int = 16) -> None:
        super().__init__()
        if depth < 8 or depth % 6 != 2:
            raise ValueError(f"Expected a depth of 6 n + 2 layers, such as 20, got {depth}.")
        self.out_features = 4 * width
        self.first = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        blocks = []
        for group in range(3):
            for place in range((depth - 2) // 6):
                halves = group > 0 and place == 0
                out_channels = width * 2**group
                blocks.append(_Block(out_channels // 2 if halves else out_channels, out_channels, halves))
        self.blocks = nn.Sequential(*blocks)
        start_weights(self)

    def forward(self, x: Float[Tensor, "B K H W"]) -> Float[Tensor, "B Q"]:
        """Return features of each image, at least 0."""
        return self.blocks(self.first(x.contiguous(memory_format=torch.channels_last))).mean((2, 3))


class _Block(nn.Module):
    """Two convolutions, whose result is added to their input."""

    def __init__(self, in_channels: int, out_channels: int, halves: bool) -> None:
        super().__init__()
        self.stride, self.new_channels = (2 if halves else 1), out_channels - in_channels
        self.branch = nn.Sequential(
            nn.Conv2d(in_channels, out_channels, 3, stride=self.stride, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(),
            nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
        )

    def forward(self, x: Float[Tensor, "B K H W"]) -> Float[Tensor, "B K2 H2 W2"]:
        shortcut = pad(x[:, :, :: self.stride, :: self.stride], [0, 0, 0, 0, 0, self.new_channels])
        return torch.relu(shortcut + self.branch(x))
