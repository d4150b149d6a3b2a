"""Images through the estimators, with a network of the user's own."""

import numpy as np
import pytest
import torch
from digits import digits
from refusals import refused
from torch import nn

from svdkl import SVDKLClassifier
from svdkl.estimators.examples import Examples, NumberRows, read_inputs
from svdkl.nets.convnet import LeNet, ResNet
from svdkl.nets.images import CropAndFlip, Standardise

TINY = {"recipe": "dnn", "max_iter": 2, "random_state": 0}


def small_net(images: np.ndarray) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Standardise.of(images), CropAndFlip(1, flip=False), LeNet(1, 16, 12))


def test_bytes_stay_bytes_for_a_network_that_reads_them():
    X, y = digits(16)
    X, y = X[:200], y[:200]
    model = SVDKLClassifier(net=small_net(X), **TINY).fit(X, y)
    assert model.fitted_.read(X).array.dtype == np.uint8
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-9)
    # The same numbers in other types and in memory that may not be written to are the same images.
    frozen = X.copy()
    frozen.flags.writeable = False
    for same in (X.astype(np.float64), frozen, X[::-1][::-1]):
        np.testing.assert_array_equal(model.predict_proba(same), p)
    assert read_inputs(X, nn.Flatten(), "SVDKLClassifier")[0].array.dtype == np.float32
    refused(lambda: model.predict(X[:, :, :8]), "(1, 16, 16)", "(1, 8, 16)")


def test_images_may_come_in_any_order():
    X, y = digits(16)
    X, y = X[:150], y[:150]
    shuffled = np.random.default_rng(0).permutation(150)
    given = [Examples(NumberRows(X[rows]), y[rows]) for rows in (slice(None), shuffled)]
    np.testing.assert_array_equal(*(examples.in_order_of_content().X.array for examples in given))
    first, other = (SVDKLClassifier(net=small_net(X), **TINY).fit(X[rows], y[rows]) for rows in (slice(None), shuffled))
    np.testing.assert_array_equal(first.predict_proba(X), other.predict_proba(X))


def test_saved_and_loaded_with_the_scale_of_its_images(tmp_path):
    X, y = digits(16)
    model = SVDKLClassifier(net=small_net(X), **TINY).fit(X[:150], y[:150])
    model.save(tmp_path / "model")
    fresh = nn.Sequential(Standardise([0.0], [1.0]), CropAndFlip(1, flip=False), LeNet(1, 16, 12))
    again = SVDKLClassifier.load(tmp_path / "model", net=fresh)
    np.testing.assert_array_equal(again.predict_proba(X[:50]), model.predict_proba(X[:50]))


def test_averaged_statistics_of_batches_fit_the_averaged_weights():
    """Batch normalisation scores by averages of its running statistics: they are near those of the final weights."""
    X, y = digits(8)
    torch.manual_seed(0)
    net = nn.Sequential(Standardise.of(X), ResNet(8, 1, 8))
    model = SVDKLClassifier(net=net, recipe="dnn", max_iter=6, batch_size=64, random_state=0).fit(X[:1000], y[:1000])
    norms = [module for module in model.model_.net.modules() if isinstance(module, nn.BatchNorm2d)]
    before = model.log_predictive(X[1000:], y[1000:]).mean()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
        norm.train()
    with torch.no_grad():
        model.model_.net(torch.from_numpy(X[:1000]))
    model.model_.eval()
    assert model.log_predictive(X[1000:], y[1000:]).mean() == pytest.approx(before, abs=0.03)
    assert before > -1.9  # which a model that has learned nothing does not reach
