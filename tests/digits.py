"""Scikit-learn's digits as images, and in the place of MNIST."""

from dataclasses import replace
from functools import partial

import numpy as np
from sklearn.datasets import load_digits

from svdkl.nets.convnet import LeNet
from svdkl_research.datasets import mnist
from svdkl_research.rivals.image_networks import BUDGETS, NETWORKS


def digits(size: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Digits (N, 1, size, size) as bytes, and which they are."""
    bunch = load_digits()
    times = -(-size // 8)
    images = (15 * bunch.images).astype(np.uint8).repeat(times, 1).repeat(times, 2)
    return np.ascontiguousarray(images[:, None, :size, :size]), bunch.target


def put_digits(folder, monkeypatch) -> None:
    """Make 300 digits the MNIST of a folder, to be learned by a small LeNet."""
    X, y = digits(28)
    fit, test = slice(0, 200), slice(200, 300)
    for counts, rows in (("TRAIN_COUNTS", fit), ("TEST_COUNTS", test)):
        monkeypatch.setattr(mnist, counts, tuple(np.bincount(y[rows], minlength=10).tolist()))
    arrays = {"x_train": X[fit, 0], "y_train": y[fit], "x_test": X[test, 0], "y_test": y[test]}
    np.savez(folder / "mnist.npz", **arrays)
    monkeypatch.setitem(NETWORKS, "lenet", partial(LeNet, out_features=12))
    monkeypatch.setitem(BUDGETS, "mnist", replace(BUDGETS["mnist"], batch_size=16))
