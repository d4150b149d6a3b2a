"""Weighted sums and means."""

import numpy as np
import numpy.typing as npt

from svdkl.metrics.inputs import Floats, Truths


def weighted_mean(values: Floats | Truths, weight: Floats) -> float:
    """Mean over the outputs of a row, if there are several, then over the rows by their weight."""
    return float(np.average(values if values.ndim == 1 else values.mean(1), weights=weight))


def sums_by_group(group: npt.NDArray[np.integer], terms: Floats, num_groups: int = 0) -> Floats:
    """Sum of the terms in each group; the groups are numbered from 0."""
    return np.bincount(group, terms, num_groups).astype(np.float64, copy=False)
