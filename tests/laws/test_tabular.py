"""Laws of the encoder: rows do not depend on each other, order is kept, codes are in range, no new value fails."""

import json
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from listed import listed

from svdkl.nets.tabular import TabularNet
from svdkl.tables.encoder import TabularEncoder
from svdkl.tables.layout import Codes, Flag, Number
from svdkl.tables.numbers import compress
from svdkl.tables.table import Table, open_table

seeds = st.integers(0, 2**31)
finite = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(max_size=5)
values = {
    "number": st.none() | finite | st.just(float("nan")),
    "whole": st.none() | st.integers(-(2**62), 2**62),
    "text": st.none() | words,
    "truth": st.none() | st.booleans(),
    "when": st.none()
    | st.datetimes(pd.Timestamp(1700, 1, 1).to_pydatetime(), pd.Timestamp(2200, 1, 1).to_pydatetime()),
}
TYPES = {
    "number": pa.float64(),
    "whole": pa.int64(),
    "text": pa.string(),
    "truth": pa.bool_(),
    "when": pa.timestamp("us"),
}
rows = st.lists(st.fixed_dictionaries(values), min_size=1, max_size=60)


def table(found: list[dict]) -> pa.Table:
    base = [  # these two rows make every column vary, and fix its kind
        {"number": 0.0, "whole": 0, "text": "a", "truth": False, "when": pd.Timestamp(2000, 1, 1)},
        {"number": 1.0, "whole": 1, "text": "b", "truth": True, "when": pd.Timestamp(2001, 2, 3, 4)},
    ]
    every = base + found
    return pa.table({name: pa.array([row[name] for row in every], kind) for name, kind in TYPES.items()})


def with_target(fitted: pa.Table, seed: int) -> np.ndarray | None:
    rng = np.random.default_rng(seed)
    return (None, rng.integers(0, 3, len(fitted)), rng.normal(size=len(fitted)))[seed % 3]


@given(rows, rows, seeds)
def test_a_row_is_encoded_the_same_whatever_the_others(fitted, then, seed):
    fitted, then = table(fitted), table(then)
    encoder = TabularEncoder(min_count=2, num_bins=8).fit(fitted, with_target(fitted, seed))
    whole = encoder.transform(then)
    rng = np.random.default_rng(seed)
    cuts = [0, *sorted(rng.integers(0, len(then) + 1, 3).tolist()), len(then)]
    parts = [encoder.transform(then.slice(start, end - start)) for start, end in pairwise(cuts)]
    assert torch.cat(parts).equal(whole)
    order = rng.permutation(len(then))
    assert encoder.transform(then.take(order)).equal(whole[order])


def cells(rows: pa.Table) -> np.ndarray:
    array = np.empty((len(rows), len(rows.column_names)), dtype=object)
    for i, column in enumerate(rows.columns):
        array[:, i] = column.to_pylist()
    return array


# Each way to hold the rows of a table.
HOLDERS = {
    "arrow": lambda rows: rows,
    "pandas": lambda rows: rows.to_pandas(),
    "pandas, arrow": lambda rows: rows.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": pl.from_arrow,
    "numpy": cells,
    "lists": lambda rows: cells(rows).tolist(),
}


@pytest.mark.parametrize("holder", HOLDERS)
@given(rows, seeds)
def test_rows_of_converted_columns_are_converted_rows(holder, found, seed):
    whole = table(found)
    rng = np.random.default_rng(seed)
    index = rng.integers(0, len(whole), rng.integers(1, 2 * len(whole)))
    start, stop = sorted(rng.integers(0, len(index) + 1, 2).tolist())
    opened = open_table(HOLDERS[holder](whole))
    view, part = opened.take(index), opened.take(index).part(start, stop)
    own = open_table(HOLDERS[holder](whole.take(index)))
    assert (view.num_rows, part.num_rows) == (len(index), stop - start)
    for place in range(len(whole.column_names)):
        expected = listed(own.column(place))
        assert listed(view.column(place)) == expected
        assert listed(part.column(place)) == expected[start:stop]
    assert encoded(view, seed) == encoded(own, seed)


def encoded(X: Table, seed: int) -> object:
    """What an encoder learns of a table, and the table that it makes; or why it learns nothing."""
    encoder = TabularEncoder(min_count=2, num_bins=8)
    try:
        encoder.fit(X, np.random.default_rng(seed).normal(size=X.num_rows) if seed % 2 else None)
    except ValueError as error:
        return str(error)
    return encoder.to_json(), encoder.transform(X).tolist()


@given(seeds, st.integers(1, 200_000))
def test_long_columns_are_encoded_the_same_in_parts(seed, cut):
    rng = np.random.default_rng(seed)
    x = rng.standard_cauchy((200_000, 2))
    encoder = TabularEncoder().fit(x[:1000])
    assert torch.cat([encoder.transform(x[:cut]), encoder.transform(x[cut:])]).equal(encoder.transform(x))


@given(st.lists(finite, min_size=2, max_size=50), st.lists(finite, max_size=50))
def test_scaling_keeps_the_order(fitted, then):
    x = np.array(sorted([*fitted, *then]))
    if min(fitted) == max(fitted):
        fitted = [*fitted, 0.0, 1.0]
    z = TabularEncoder().fit(np.array(fitted)[:, None]).transform(x[:, None])[:, 0]
    assert z.isfinite().all()
    assert (z.diff() >= 0).all()


@given(finite, st.floats(1e-100, 1e100), st.floats(-100, 100), st.floats(1e-4, 100))
def test_compression_is_strict_and_odd(centre, scale, t, step):
    low, high, mirrored = compress(np.array([t, t + step * max(1, abs(t)), -t]), 0.0, 1.0)
    assert low < high
    assert mirrored == -low
    assert compress(np.array([centre]), centre, scale) == 0


@given(rows, rows, seeds, st.integers(1, 5), st.integers(1, 4), st.integers(0, 5))
def test_the_layout_tells_the_truth(fitted, then, seed, max_categories, min_count, max_onehot):
    fitted = table(fitted)
    encoder = TabularEncoder(max_onehot, max_categories, min_count, num_bins=8).fit(fitted, with_target(fitted, seed))
    for given_table in (fitted, table(then)):
        x = encoder.transform(given_table)
        assert x.shape == (len(given_table), len(encoder.layout))
        assert x.isfinite().all()
        for column, feature in zip(x.T, encoder.layout.features, strict=True):
            if isinstance(feature, Codes):
                assert feature.onehot == (feature.cardinality <= max_onehot)
                assert feature.cardinality <= max_categories + 2
                assert column.equal(column.round())
                assert column.min() >= 0
                assert column.max() < feature.cardinality
            elif isinstance(feature, Flag):
                assert ((column == 0) | (column == 1)).all()
            else:
                assert isinstance(feature, Number)
                assert len(feature.edges) <= 9
                assert list(feature.edges) == sorted(set(feature.edges))


@given(rows, rows, seeds)
def test_whatever_was_fitted_the_network_can_read(fitted, then, seed):
    fitted = table(fitted)
    encoder = TabularEncoder(max_onehot=3, num_bins=8, min_count=2).fit(fitted, with_target(fitted, seed))
    again = TabularEncoder.from_json(json.loads(json.dumps(encoder.to_json(), allow_nan=False)))
    net = TabularNet(again.layout, (4,), 2, encoding=("piecewise", "periodic", "both", "plain")[seed % 4])
    x = encoder.transform(table(then))
    assert again.transform(table(then)).equal(x)
    inputs = net.inputs(x)
    assert inputs.isfinite().all()
    assert net(x).isfinite().all()


@given(st.lists(st.none() | words | st.integers(-3, 3) | finite | st.booleans(), min_size=1, max_size=30), rows)
def test_mixed_objects_never_crash(mixed, fitted):
    column = np.empty((len(mixed) + 2, 1), dtype=object)
    column[:, 0] = [*mixed, "a", "b"]
    encoder = TabularEncoder(min_count=1).fit(column)
    codes = encoder.transform(column)
    assert codes.min() >= 0
    assert codes.max() < encoder.layout.features[0].cardinality
    text = [None if row["text"] is None else row["text"] for row in fitted]
    unseen = np.empty((len(text) + 1, 1), dtype=object)
    unseen[:, 0] = [*text, "never seen"]
    assert encoder.transform(unseen)[-1] == 0
