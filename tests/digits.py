"""Scikit-learn's digits as images."""

import numpy as np
from sklearn.datasets import load_digits


def digits(size: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Digits (N, 1, size, size) as bytes, and which they are."""
    bunch = load_digits()
    times = -(-size // 8)
    images = (15 * bunch.images).astype(np.uint8).repeat(times, 1).repeat(times, 2)
    return np.ascontiguousarray(images[:, None, :size, :size]), bunch.target
