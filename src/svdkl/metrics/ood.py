"""Metrics of a score that is to tell rows from elsewhere (out of distribution) from rows like the training data.

A higher score means further out, as in ``Uncertainty.ood_score``.
"""

import math

import numpy as np
import numpy.typing as npt

from svdkl.metrics.classification import ranking_area
from svdkl.metrics.inputs import scores


def auroc_ood(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> float:
    """Probability that a row from elsewhere scores above a row from the distribution; ties count half.

    Higher is better: 0.5 is a coin, 1 is a perfect split.
    """
    inside, outside = scores("in_scores", in_scores), scores("out_scores", out_scores)
    both = np.concatenate([inside, outside])
    return ranking_area(both, np.arange(len(both)) >= len(inside), np.ones(len(both)))


def fpr95(in_scores: npt.ArrayLike, out_scores: npt.ArrayLike) -> float:
    """Share of rows from elsewhere that pass where 95 % of the distribution's rows pass. Lower is better.

    Rows pass up to a threshold, itself included: the lowest score that lets 95 % pass. The distribution's rows are the
    positives, as in the literature since Liang et al. (2018).
    """
    inside, outside = np.sort(scores("in_scores", in_scores)), scores("out_scores", out_scores)
    passing = math.ceil(0.95 * len(inside))
    return float(np.mean(outside <= inside[passing - 1]))
