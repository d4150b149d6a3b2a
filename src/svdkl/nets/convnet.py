"""Convolutional networks: Caffe's reference networks, from which the paper starts, a small AlexNet, and ResNets.

Each turns images (B, K, H, W) of unit variance into features (B, Q). The layer that would follow, from features to
classes, is left to the head.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn
from torch.nn.functional import pad

from svdkl.nets.mlp import Dropout
from svdkl.shapes import Float, Tensor

HE = partial(nn.init.kaiming_normal_, nonlinearity="relu")  # keeps the variance of rectified signals (He et al., 2015)


class _ConvNet(nn.Module):
    """Layers that follow each other, from images to features."""

    layers: nn.Sequential

    def forward(self, x: Float[Tensor, "B K H W"]) -> Float[Tensor, "B Q"]:
        """Return features of each image: at least 0, except CifarQuick's, which are of either sign."""
        # Convolutions on CPUs are fastest with the channels of a pixel side by side in memory.
        return self.layers(x.contiguous(memory_format=torch.channels_last))


class LeNet(_ConvNet):
    """Caffe's LeNet for MNIST: two convolutions of 5 x 5 with max pooling, and a hidden layer.

    As in the reference, no activation follows the convolutions, only the maximum. ``image_size`` is H = W, and
    ``out_features`` is Q, the rectified units of the hidden layer.
    """

    def __init__(self, in_channels: int = 1, image_size: int = 28, out_features: int = 500) -> None:
        super().__init__()
        _check_size(image_size, 16)
        self.out_features = out_features
        side = ((image_size - 4) // 2 - 4) // 2
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, 20, 5),
            nn.MaxPool2d(2),
            nn.Conv2d(20, 50, 5),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(50 * side**2, out_features),
            nn.ReLU(),
        )
        start_weights(self, nn.init.xavier_uniform_)


class CifarQuick(_ConvNet):
    """Caffe's CIFAR-10 quick: three convolutions of 5 x 5 with overlapping pooling, and a linear hidden layer.

    As in the reference, the first pooling takes maxima before the activation, the other two take means after it,
    windows at the edge count the pixels that exist, and the hidden layer has no activation. Weights start by He's rule,
    not with the reference's small numbers, which are meant for pixels up to 255. ``image_size`` is H = W, and
    ``out_features`` is Q, the units of the hidden layer.
    """

    def __init__(self, in_channels: int = 3, image_size: int = 32, out_features: int = 64) -> None:
        super().__init__()
        _check_size(image_size, 8)
        self.out_features = out_features
        side = image_size
        for _ in range(3):
            side = -(-(side - 3) // 2) + 1
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, 32, 5, padding=2),
            nn.MaxPool2d(3, 2, ceil_mode=True),
            nn.ReLU(),
            nn.Conv2d(32, 32, 5, padding=2),
            nn.ReLU(),
            nn.AvgPool2d(3, 2, ceil_mode=True),
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.AvgPool2d(3, 2, ceil_mode=True),
            nn.Flatten(),
            nn.Linear(64 * side**2, out_features),
        )
        start_weights(self)


class AlexNet(_ConvNet):
    """AlexNet (Krizhevsky et al., 2012) for images of 64 pixels: five convolutions and two hidden layers.

    It is as wide as one of the original's two towers. The first convolution takes 5 x 5 pixels with stride 2 instead of
    11 x 11 with stride 4, hidden layers are smaller, and nothing is normalised across channels. Dropout comes before
    each hidden layer and not after the last one, so the head sees all features. ``image_size`` is H = W,
    ``out_features`` is Q, the rectified units of the second hidden layer, and ``dropout`` is the share of the hidden
    layers' inputs that training leaves out.
    """

    def __init__(
        self, in_channels: int = 3, image_size: int = 64, out_features: int = 256, dropout: float = 0.5
    ) -> None:
        super().__init__()
        _check_size(image_size, 32)
        self.out_features = out_features
        side = (image_size + 1) // 2
        for _ in range(3):
            side = (side - 1) // 2 + 1
        self.layers = nn.Sequential(
            *(nn.Conv2d(in_channels, 48, 5, stride=2, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)),
            *(nn.Conv2d(48, 128, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)),
            *(nn.Conv2d(128, 192, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(192, 192, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(192, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)),
            *(nn.Flatten(), Dropout(dropout), nn.Linear(128 * side**2, 512), nn.ReLU()),
            *(Dropout(dropout), nn.Linear(512, out_features), nn.ReLU()),
        )
        start_weights(self)


class ResNet(nn.Module):
    """A residual network for small images: a convolution, three groups of blocks, and the mean over the image.

    This is the form that He et al. (2016) give it for CIFAR-10. The second and the third group halve the image and
    double the width. Shortcuts have no parameters (the paper's option A): where a block halves the image, they take
    every other pixel and fill the new channels with zeros.

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


def start_weights(net: nn.Module, rule: Callable[[Tensor], Tensor] = HE) -> None:
    """Draw weights by a rule, set biases to zero, and lay weights out in memory as images are."""
    for module in net.modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            rule(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's own stubs leave it out


def _check_size(image_size: int, least: int) -> None:
    if image_size < least:
        raise ValueError(f"Expected image_size of at least {least} pixels, got {image_size}: enlarge the images.")
