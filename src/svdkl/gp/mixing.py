"""The mixing layer, which makes outputs linear combinations of GPs, and so correlated."""

import torch
from torch import nn

from svdkl.shapes import Float, Tensor


class Mixing(nn.Module):
    """The mixing g = A f + b, with A of shape C x J."""

    def __init__(self, num_gps: int, num_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_outputs, num_gps))
        self.bias = nn.Parameter(torch.zeros(num_outputs))
        if num_gps == num_outputs:
            nn.init.eye_(self.weight)  # the paper starts with one GP for each output
        else:
            nn.init.normal_(self.weight, std=num_gps**-0.5)

    def forward(self, f: Float[Tensor, "... J"]) -> Float[Tensor, "... C"]:
        """Mix samples of f."""
        return torch.nn.functional.linear(f, self.weight.to(f.dtype), self.bias.to(f.dtype))

    def gaussian(
        self, mean: Float[Tensor, "B J"], variance: Float[Tensor, "B J"], contrasts: Float[Tensor, "P C"] | None = None
    ) -> tuple[Float[Tensor, "B P"], Float[Tensor, "B P"]]:
        """Return means and variances of the outputs, or of contrasts of them, for independent Gaussian f_j."""
        weight, bias = self.weight.to(mean.dtype), self.bias.to(mean.dtype)
        if contrasts is not None:
            weight, bias = contrasts @ weight, contrasts @ bias
        return torch.nn.functional.linear(mean, weight, bias), torch.nn.functional.linear(variance, weight.square())

    def covariance(self, variance: Float[Tensor, "B J"]) -> Float[Tensor, "C C B"]:
        """Return A diag(v) A^T, the outputs' covariances in each row for independent f_j; rows are last in memory."""
        weight = self.weight.to(variance.dtype)
        return ((weight.unsqueeze(1) * weight).flatten(0, 1) @ variance.T).unflatten(0, (-1, len(weight)))
