"""Likelihoods of class labels."""

import torch
from torch.nn.functional import logsigmoid

from svdkl.likelihoods.likelihood import Likelihood, require
from svdkl.shapes import Float, Tensor


class _Classes(Likelihood):
    """The common part of likelihoods of labels."""

    is_classifier = True

    def predictive_terms(self, latent: Float[Tensor, "*T B P"]) -> tuple[Tensor, Tensor]:
        """Return class probabilities and their entropy."""
        probabilities = self.predictive_mean(latent)
        return probabilities, self.entropy(probabilities)


class Softmax(_Classes):
    """One label out of C: p(y = c | g) = exp(g_c) / sum_c' exp(g_c')."""

    def __init__(self, num_outputs: int) -> None:
        super().__init__(num_outputs)
        if num_outputs < 2:
            raise ValueError(
                f"Expected at least 2 outputs for the softmax likelihood, got {num_outputs}: use 'bernoulli' for one."
            )

    def contrasts(self, like: Tensor) -> Float[Tensor, "P C"] | None:
        """Return g_1 - g_0, on which two classes depend, and None for more classes."""
        return like.new_tensor([[-1.0, 1.0]]) if self.num_outputs == 2 else None

    def targets(self, y: Tensor, num_rows: int) -> Tensor:
        """Return labels (B,) as int64."""
        if y.shape != (num_rows,):
            raise ValueError(f"Expected labels of shape ({num_rows},), got {tuple(y.shape)}.")
        if y.is_floating_point() or y.is_complex():
            raise ValueError(f"Expected integer labels 0 to {self.num_outputs - 1}, got {y.dtype}.")
        return y.long()

    def check_range(self, y: Tensor) -> None:
        """Refuse labels other than 0, ..., C - 1."""
        require((y >= 0) & (y < self.num_outputs), y, f"labels from 0 to {self.num_outputs - 1}")

    def log_prob(self, latent: Float[Tensor, "*T B P"], y: Tensor) -> Float[Tensor, "*T B P_y"]:
        """Return the log softmax of the label."""
        if self.num_outputs == 2:
            return logsigmoid(latent * (2 * y - 1).to(latent.dtype).unsqueeze(-1))
        index = y.unsqueeze(-1).expand(*latent.shape[:-1], 1)
        return latent.gather(-1, index) - latent.logsumexp(-1, keepdim=True)

    def predictive_mean(self, latent: Float[Tensor, "*T B P"]) -> Tensor:
        """Return class probabilities."""
        if self.num_outputs == 2:
            return torch.cat([torch.sigmoid(-latent), torch.sigmoid(latent)], -1)
        # Rows are last in memory, and softmax takes many of them at a time.
        return latent.mT.softmax(-2).mT


class Bernoulli(_Classes):
    """C yes-or-no labels with an output each: p(y_c = 1 | g_c) = sigmoid(g_c)."""

    def check_range(self, y: Tensor) -> None:
        """Refuse labels other than 0 and 1."""
        require((y == 0) | (y == 1), y, "labels 0 and 1")

    def log_prob(self, latent: Float[Tensor, "*T B P"], y: Tensor) -> Float[Tensor, "*T B P_y"]:
        """Return the log sigmoid of the output, signed by the label."""
        return logsigmoid(latent * (2 * y.to(latent.dtype) - 1))

    def predictive_mean(self, latent: Float[Tensor, "*T B P"]) -> Tensor:
        """Return the probabilities of 0 and 1 where C = 1, and of 1 for each label otherwise."""
        yes = latent.sigmoid()
        return torch.cat([1 - yes, yes], -1) if self.num_outputs == 1 else yes

    def logits(self, probabilities: Float[Tensor, "B K"]) -> Float[Tensor, "B C"]:
        """Return the log odds of each label."""
        yes = probabilities[:, 1:] if self.num_outputs == 1 else probabilities
        return torch.logit(yes, eps=torch.finfo(yes.dtype).eps)

    def entropy(self, probabilities: Float[Tensor, "*T B K"]) -> Float[Tensor, "*T B"]:
        """Return the entropy of all labels together."""
        if self.num_outputs == 1:
            return super().entropy(probabilities)
        return super().entropy(probabilities) + super().entropy(1 - probabilities)
