"""Metrics of class probabilities (rows, classes) against labels (rows,), and of scores that tell rows from elsewhere.

A weight of w counts a row w times. Rows from elsewhere are out of distribution: a higher score means further out, as in
``Uncertainty.ood_score``.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from svdkl.metrics.inputs import Floats, Truths, Weights, labelled_rows, scores, sums_by_group, weighted_mean


def accuracy(probabilities: ArrayLike, labels: ArrayLike, sample_weight: Weights = None) -> float:
    """Compute the share of rows whose most probable class (the first of equals) is the label. Higher is better."""
    rows = labelled_rows(probabilities, labels, sample_weight)
    return weighted_mean(rows.correct, rows.weight)


def negative_log_probability(probabilities: ArrayLike, labels: ArrayLike, sample_weight: Weights = None) -> float:
    """Compute the mean of -log p(label), in nats. Lower is better.

    Probabilities are kept above the smallest positive number of float64, so that a sure mistake costs much, not
    infinitely much.
    """
    rows = labelled_rows(probabilities, labels, sample_weight)
    chosen = rows.probabilities[np.arange(len(rows.labels)), rows.labels]
    # We subtract from 0, so that a perfect prediction costs 0 and not -0.
    return 0.0 - weighted_mean(np.log(np.maximum(chosen, np.finfo(np.float64).tiny)), rows.weight)


def brier_score(probabilities: ArrayLike, labels: ArrayLike, sample_weight: Weights = None) -> float:
    """Compute the mean over the rows of Σ_c (p_c − [c = label])², from 0 to 2. Lower is better.

    For two classes it is twice the score of the second class's probability alone.
    """
    rows = labelled_rows(probabilities, labels, sample_weight)
    error = rows.probabilities.copy()
    error[np.arange(len(rows.labels)), rows.labels] -= 1
    return weighted_mean(np.einsum("bc,bc->b", error, error), rows.weight)


def auroc(probabilities: ArrayLike, labels: ArrayLike, sample_weight: Weights = None) -> float:
    """Area under the ROC curve. Higher is better.

    It is the chance that a row of a class gets a larger probability of it than another row; ties count half. For two
    classes that is the second class; for more we average over the classes, each against the rest. Classes that no row
    or every row has are left out; if none is left, the result is NaN.
    """
    p, labels, weight = labelled_rows(probabilities, labels, sample_weight)
    classes = [1] if p.shape[1] == 2 else range(p.shape[1])
    areas = [_ranking_area(p[:, c], labels == c, weight) for c in classes]
    defined = [area for area in areas if not math.isnan(area)]
    return sum(defined) / len(defined) if defined else math.nan


def aurc(probabilities: ArrayLike, labels: ArrayLike, sample_weight: Weights = None) -> float:
    """Area under the risk-coverage curve, with the largest probability as confidence. Lower is better.

    The risk at coverage c is the error rate among the share c of the rows with the most confidence; we integrate it
    exactly over c from 0 to 1. Rows of equal confidence enter together with their mean error, so that their order plays
    no part. Others call the mean of the risks at coverages 1/n, 2/n, ..., 1 by this name; it differs by O(log(n) / n)
    and changes when every row is counted twice.
    """
    rows = labelled_rows(probabilities, labels, sample_weight)
    _, level = np.unique(-rows.confidence, return_inverse=True)
    mass = sums_by_group(level, rows.weight)
    error = sums_by_group(level, rows.weight * ~rows.correct) / mass
    covered = np.cumsum(mass)
    coverage = covered / covered[-1]
    # ∫₀¹ (1/c) ∫₀ᶜ error(t) dt dc  =  ∫₀¹ −log(t) error(t) dt,   and t (1 − log t) is the integral of −log t
    integral = coverage * (1 - np.log(coverage))
    return float(error @ np.diff(integral, prepend=0.0))


def auroc_ood(in_scores: ArrayLike, out_scores: ArrayLike) -> float:
    """Probability that a row from elsewhere scores above a row from the distribution; ties count half.

    Higher is better: 0.5 is a coin, 1 is a perfect split.
    """
    inside, outside = scores("in_scores", in_scores), scores("out_scores", out_scores)
    both = np.concatenate([inside, outside])
    return _ranking_area(both, np.arange(len(both)) >= len(inside), np.ones(len(both)))


def fpr95(in_scores: ArrayLike, out_scores: ArrayLike) -> float:
    """Share of rows from elsewhere that pass where 95 % of the distribution's rows pass. Lower is better.

    Rows pass up to a threshold, itself included: the lowest score that lets 95 % pass. The distribution's rows are the
    positives, as in the literature since Liang et al. (2018).
    """
    inside, outside = np.sort(scores("in_scores", in_scores)), scores("out_scores", out_scores)
    passing = math.ceil(0.95 * len(inside))
    return float(np.mean(outside <= inside[passing - 1]))


def _ranking_area(ranked: Floats, positive: Truths, weight: Floats) -> float:
    """P(a positive scores above a negative) + P(equal) / 2; NaN where there are no positives or no negatives."""
    values, rank = np.unique(ranked, return_inverse=True)
    positives = sums_by_group(rank, weight * positive, len(values))
    negatives = sums_by_group(rank, weight * ~positive, len(values))
    if not positives.any() or not negatives.any():
        return math.nan
    below = np.cumsum(negatives)
    return float(np.average((below - negatives / 2) / below[-1], weights=positives))
