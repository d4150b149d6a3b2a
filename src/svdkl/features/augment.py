"""Images that are never quite the same twice: shifted and mirrored at random, while a network is trained."""

import torch
from torch import nn
from torch.nn.functional import pad

from svdkl.shapes import Float, Tensor


class CropAndFlip(nn.Module):
    """In training, a random crop of each image with a margin of zeros around it, and its mirror image half of the time.

    A module of the network like dropout: it draws from torch's own generator, and passes images on as they are when the
    network is not in training. After :class:`~svdkl.features.pixels.Standardise` the margin has the mean colour.

    Parameters
    ----------
    padding
        Width of the margin, and so the farthest shift in each direction.
    flip
        Whether images are mirrored left to right.
    """

    def __init__(self, padding: int, flip: bool = True) -> None:
        super().__init__()
        if padding < 0:
            raise ValueError(f"Expected padding of at least 0 pixels, got {padding}.")
        self.padding, self.flip = padding, flip

    def extra_repr(self) -> str:
        """The parameters."""
        return f"padding={self.padding}, flip={self.flip}"

    def forward(self, x: Float[Tensor, "B K H W"]) -> Float[Tensor, "B K H W"]:
        """Images of the same size."""
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
        # Where each pixel comes from, alike in all channels: one gather for the whole batch.
        places = rows[:, :, None] * (width + 2 * margin) + columns[:, None, :]
        places = places.view(count, 1, -1).expand(-1, channels, -1)
        return pad(x, [margin] * 4).flatten(2).gather(2, places).view_as(x)
