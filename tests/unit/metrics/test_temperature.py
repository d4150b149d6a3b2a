"""A temperature is found, changes no decision, and is not led astray by a few rows."""

import numpy as np
import pytest

from svdkl.metrics import negative_log_probability
from svdkl.metrics.temperature import Temperature


@pytest.mark.parametrize("true", [0.4, 1.0, 2.5])
def test_temperature_is_found(true):
    random = np.random.default_rng(0)
    logits = 3 * random.normal(size=(20_000, 4))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    sharp = p ** (1 / true)
    sharp /= sharp.sum(1, keepdims=True)
    labels = np.array([random.choice(4, p=row) for row in sharp])
    temperature = Temperature()
    temperature.fit(p, labels)
    assert temperature.value == pytest.approx(true, rel=0.03)
    scaled = temperature.apply(p)
    np.testing.assert_allclose(scaled.sum(1), 1)
    assert np.array_equal(scaled.argmax(1), p.argmax(1))
    assert negative_log_probability(scaled, labels) <= negative_log_probability(p, labels) + 1e-6


def test_few_rows_without_an_error_do_not_make_a_network_sure():
    p = np.array([[0.98, 0.02], [0.1, 0.9]])[np.arange(40) % 2]
    temperature = Temperature()
    temperature.fit(p, np.arange(40) % 2)  # each is right, so that the likelihood asks for T = 0
    assert 0.6 < temperature.value < 1
    # One in a hundred is not: thousands of rows say what is best, and the prior nothing.
    labels = np.arange(4000) % 2
    labels[::100] ^= 1
    many = p[np.arange(4000) % 40]
    temperature.fit(many, labels)
    fitted = negative_log_probability(temperature.apply(many), labels)
    tried = []
    for temperature.value in np.linspace(0.3, 3, 271):
        tried.append(negative_log_probability(temperature.apply(many), labels))
    assert fitted == pytest.approx(min(tried), abs=2e-4)


def test_temperature_bears_probabilities_of_zero():
    temperature = Temperature()
    p = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], dtype=np.float32)
    temperature.fit(p, np.array([0, 1, 1]))
    assert np.isfinite(temperature.apply(p)).all()
    assert temperature.value > 5
