"""The rows that figures show."""

import numpy as np

from svdkl.report.facts.predictions import figure_rows


def test_figure_rows_are_all_or_a_fixed_sample():
    assert figure_rows(7).tolist() == list(range(7))
    chosen = figure_rows(50_000)
    assert len(chosen) == 20_000 == len(set(chosen.tolist()))
    assert (np.diff(chosen) > 0).all()
    assert np.array_equal(chosen, figure_rows(50_000))
