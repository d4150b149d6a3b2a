"""How wide a central interval has to be to hold the truth: all that coverage at any level needs to know."""

from typing import Any

import numpy as np
from scipy import special

from svdkl.estimators import SVDKLRegressor
from svdkl.estimators.inputs import take_rows
from svdkl.report.facts.targets import Reals

DRAWS = 200
ROWS_AT_ONCE = 4096


def covering_levels(estimator: SVDKLRegressor, X: Any, values: Reals, mean: Reals, std: Reals) -> Reals:
    """The level of the narrowest central interval that holds each target, (rows, targets).

    In closed form for Gaussians. For other distributions by draws, whose quantiles have no closed form: an interval of
    level l holds y where F(y) >= (1 - l) / 2 and F(y-) <= (1 + l) / 2.
    """
    if estimator.likelihood == "gaussian":
        return special.erf(np.abs(values - mean) / std / np.sqrt(2))
    levels = np.empty_like(values)
    for start in range(0, len(values), ROWS_AT_ONCE):
        part = slice(start, min(len(values), start + ROWS_AT_ONCE))
        y = values[part, :, None]
        draws = estimator.sample_y(take_rows(X, part), DRAWS).reshape(*y.shape[:2], DRAWS)
        up_to, below = (draws <= y).mean(-1), (draws < y).mean(-1)
        levels[part] = np.maximum(np.maximum(1 - 2 * up_to, 2 * below - 1), 0)
    return levels
