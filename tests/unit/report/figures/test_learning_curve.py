"""The figure of training."""

import numpy as np
import pytest

from svdkl.report.figures.learning_curve import learning


@pytest.mark.parametrize(("largest", "smallest", "ticks"), [(9.0, 0.1, True), (0.9, 0.1, False), (9.0, -0.1, False)])
def test_few_large_losses_do_not_press_the_others_flat(largest, smallest, ticks):
    svg = learning(["a", "b"], np.array([0.5, largest]), np.array([0.15, smallest]), np.array([0.3, np.inf]))
    assert (">0.2<" in svg and ">0.5<" in svg and ">2<" in svg and ">5<" in svg) == ticks
