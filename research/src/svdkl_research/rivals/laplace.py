"""A Laplace approximation of a trained network's last layer (MacKay, 1992; Daxberger et al., 2021).

The features below that layer are computed once. On them the layer is a linear model of (Q + 1) C weights, whose
Gauss-Newton matrix is small enough to be kept whole:

    H = Σ_i (diag p_i − p_i p_iᵀ) ⊗ φ_i φ_iᵀ,   q(w) = N(w*, (H + τ I)⁻¹),   φ = (h, 1)

τ is the precision of largest marginal likelihood, and the probabilities are those of logits g_c / √(1 + π/8 v_c) with

    v_c = 2 C / (C − 1) var(g_c − mean g)

A shift of all logits means nothing, so that only contrasts have a variance that counts; the factor makes it that of a
difference of two logits, which for two classes is MacKay's probit of the difference itself.
"""

import math

import numpy as np
import torch
from scipy.optimize import minimize_scalar

from svdkl.estimators.examples import encode
from svdkl.shapes import Tensor
from svdkl.training.batches import map_inputs
from svdkl.training.linear_head import LinearHead
from svdkl_research.datasets.dataset import Inputs
from svdkl_research.rivals.image_networks import ImageClassifier
from svdkl_research.rivals.interface import ClassBaseline, Floats, Labels, Refined
from svdkl_research.rivals.networks import NetworkClassifier

ROWS_AT_ONCE = 4096
NUMBERS_AT_ONCE = 2**25  # of a prediction: each row has C times as many as there are weights
LOG_PRECISIONS = (math.log(1e-4), math.log(1e6))


def gauss_newton(features: Tensor, weight: Tensor) -> Tensor:
    """H of a linear softmax model, (C P, C P), from features (N, P) and weights (C, P)."""
    classes, inputs = weight.shape
    total = weight.new_zeros(classes, inputs, classes, inputs)
    for phi in features.split(ROWS_AT_ONCE):
        p = (phi @ weight.T).softmax(1)
        for c in range(classes):
            for d in range(c + 1):
                curvature = p[:, c] * (float(c == d) - p[:, d])
                total[c, :, d] += (phi * curvature[:, None]).T @ phi
    for c in range(classes):
        for d in range(c):
            total[d, :, c] = total[c, :, d]  # each block is symmetric
    return total.reshape(classes * inputs, classes * inputs)


class LaplaceClassifier(Refined, ClassBaseline):
    """A plain network with a Gaussian on its last layer's weights.

    Parameters
    ----------
    network
        By the recipe "dnn".
    """

    def __init__(self, network: NetworkClassifier | ImageClassifier) -> None:
        self.network: NetworkClassifier | ImageClassifier = network
        self.log_precision = 0.0

    def refine(self, X: Inputs, y: Labels, X_held_out: Inputs, y_held_out: Labels) -> None:
        """Fit the Gaussian to the rows that the network was fitted to."""
        head = self.network.estimator.model_.head
        assert isinstance(head, LinearHead)
        layer = head.mixing
        self.weight = torch.cat([layer.weight, layer.bias[:, None]], 1).detach().cpu().double()
        values, self.directions = torch.linalg.eigh(gauss_newton(self._features(X), self.weight))
        self.curvatures = values.clamp(min=0)
        size, norm = float(len(values)), float(self.weight.square().sum())

        def loss(log_precision: float) -> float:
            # −log p(y | τ) = ½ τ |w*|² − ½ P log τ + ½ log |H + τ I| + what does not depend on τ
            precision = math.exp(log_precision)
            determinant = float((self.curvatures + precision).log().sum())
            return 0.5 * (precision * norm - size * log_precision + determinant)

        self.log_precision = float(minimize_scalar(loss, bounds=LOG_PRECISIONS, method="bounded").x)

    def numbers(self) -> dict[str, float]:
        """The precision."""
        return {"prior_precision": math.exp(self.log_precision)}

    def predict_proba(self, X: Inputs) -> Floats:
        """Class probabilities (rows, C)."""
        rows_at_once = max(1, NUMBERS_AT_ONCE // (len(self.weight) * self.weight.numel()))
        parts = self._features(X).split(rows_at_once)
        return np.concatenate([self._probabilities(part).numpy() for part in parts])

    def _probabilities(self, features: Tensor) -> Tensor:
        classes, inputs = self.weight.shape
        scaled = self.directions / (self.curvatures + math.exp(self.log_precision)).sqrt()
        deviation = torch.einsum("bp,cpk->bck", features, scaled.reshape(classes, inputs, -1))
        deviation = deviation - deviation.mean(1, keepdim=True)
        g = features @ self.weight.T
        g = g - g.mean(1, keepdim=True)
        variance = 2 * classes / (classes - 1) * deviation.square().sum(2)
        return (g / (1 + math.pi / 8 * variance).sqrt()).softmax(1)

    def _features(self, X: Inputs) -> Tensor:
        fitted = self.network.estimator.fitted_
        x, net = encode(fitted.encoder, fitted.read(X)), fitted.model.net.eval()
        device = next(net.parameters()).device
        h = map_inputs(x, lambda block: net(block.to(device)).cpu()).double()
        return torch.cat([h, h.new_ones(len(h), 1)], 1)
