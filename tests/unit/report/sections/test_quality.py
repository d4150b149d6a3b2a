"""The section on quality."""

import numpy as np
import pytest
from reported import TINY

from svdkl import SVDKLRegressor
from svdkl.report.facts.all_facts import gather
from svdkl.report.facts.scores import LEVELS, coverage
from svdkl.report.sections.quality import calibration

pytestmark = pytest.mark.usefixtures("small_reports")


def test_counts():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 2)), random.poisson(3, 200)
    model = SVDKLRegressor(likelihood="poisson", **TINY).fit(X, y)
    facts = gather(model.fitted_, X, y, {})
    assert "Intervals of counts end at whole numbers" in calibration(facts).body
    low, high = model.predict_quantiles(X, (0.1, 0.9)).T
    exact = ((low <= y) & (y <= high)).mean()
    assert abs(coverage(facts.predictions, 0).observed[LEVELS == 0.8] - exact) < 0.05
