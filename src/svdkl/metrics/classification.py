"""Metrics of class probabilities (rows, classes) against labels (rows,)."""

import numpy as np
import numpy.typing as npt

Probabilities = npt.NDArray[np.floating]
Labels = npt.NDArray[np.integer]


def accuracy(probabilities: Probabilities, labels: Labels) -> float:
    """Share of rows whose most probable class is the label. Higher is better."""
    return float(np.mean(probabilities.argmax(1) == labels))


def negative_log_probability(probabilities: Probabilities, labels: Labels) -> float:
    """Mean of -log p(label), in nats. Lower is better.

    Probabilities are kept above the smallest positive number of float64, so that a sure mistake costs much, not
    infinitely much.
    """
    chosen = probabilities[np.arange(len(labels)), labels].astype(np.float64)
    return float(-np.log(np.maximum(chosen, np.finfo(np.float64).tiny)).mean())
