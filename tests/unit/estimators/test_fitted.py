"""Rows that have been opened already, in predictions of a fitted model."""

import numpy as np
import pandas as pd
import pytest
from refusals import refused

from svdkl import SVDKLRegressor
from svdkl.estimators.examples import NumberRows
from svdkl.tables.table import open_table

X = pd.DataFrame({"area": np.linspace(0, 1, 60), "kind": ["a", "b", "c"] * 20})
Y = X["area"].to_numpy() ** 2


@pytest.fixture(scope="module")
def fitted():
    return SVDKLRegressor(hidden=(8,), num_features=3, grid_size=8, max_iter=2, random_state=0).fit(X, Y).fitted_


def test_opened_rows_and_encoded_ones_are_predicted_as_the_table(fitted):
    rows = fitted.read(X)
    assert fitted.read(rows) is rows
    encoded = NumberRows(fitted.encoder.transform(X).numpy())
    some = np.array([40, 3])
    for expected, *others in zip(*(fitted.moments(one) for one in (X, rows, encoded))):
        assert all(np.array_equal(expected, other) for other in others)
    assert np.array_equal(fitted.moments(rows.take(some))[0], fitted.moments(X.iloc[some])[0])
    assert np.array_equal(fitted.log_predictive(rows, Y), fitted.log_predictive(X, Y))


def test_an_opened_table_without_a_column_is_refused(fitted):
    refused(lambda: fitted.moments(open_table(X[["area"]])), "a table without 'kind'")
