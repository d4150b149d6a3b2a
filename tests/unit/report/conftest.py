"""Fitted models that tests of the report share."""

from contextlib import contextmanager

import numpy as np
import pytest
from reported import TINY, mixed_table

from svdkl import SVDKLClassifier, SVDKLRegressor
from svdkl.report.facts import scores as scores_module
from svdkl.report.facts.all_facts import gather
from svdkl.report.sections import gps as gps_section


@contextmanager
def _small():
    """Fewer draws for intervals, and fewer figures of GPs, than reports have otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores_module, "RESAMPLES", 20)
        patch.setattr(gps_section, "MOST_FUNCTIONS", 1)
        patch.setattr(gps_section, "MOST_KERNELS", 1)
        yield


@pytest.fixture
def small_reports():
    with _small():
        yield


@pytest.fixture(scope="session")
def mixed():
    return SVDKLClassifier(**TINY).fit(*mixed_table(300, 0))


@pytest.fixture(scope="session")
def two_targets():
    X = np.random.default_rng(0).normal(size=(300, 3))
    return SVDKLRegressor(**TINY).fit(X, np.stack([X[:, 0], 100 * X[:, 1]], 1))


@pytest.fixture(scope="session")
def mixed_facts(mixed):
    with _small():
        return gather(mixed.fitted_, *mixed_table(200, 1), {})
