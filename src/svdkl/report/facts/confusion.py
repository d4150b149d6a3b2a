"""Which classes are taken for which."""

from typing import NamedTuple

import numpy as np

from svdkl.report.facts.predictions import ClassPredictions
from svdkl.report.facts.targets import Ints


class Confusion(NamedTuple):
    """How many rows of one class are taken for another."""

    truth: int
    prediction: int
    rows: int
    share: float  # of the rows of the true class


def confusion_matrix(predictions: ClassPredictions) -> Ints:
    """Rows of each true class (first axis) by predicted class, (C, C)."""
    size = len(predictions.classes)
    pairs = predictions.labels * size + predictions.chosen
    return np.bincount(pairs, minlength=size * size).reshape(size, size)


def frequent_confusions(matrix: Ints, most: int = 8) -> list[Confusion]:
    """The pairs of classes that most rows are confused in."""
    wrong = matrix - np.diag(np.diag(matrix))
    places = np.argsort(-wrong, axis=None, kind="stable")[:most]
    pairs = [divmod(int(place), len(matrix)) for place in places]
    totals = matrix.sum(1)
    return [
        Confusion(true, said, int(wrong[true, said]), float(wrong[true, said] / totals[true]))
        for true, said in pairs
        if wrong[true, said] > 0
    ]
