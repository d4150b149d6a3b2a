"""The encoder, value by value against slow references; and that it is plain JSON, the same for all kinds of tables."""

import copy
import datetime
import json
import math
import os
import pickle
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from refusals import refused
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from svdkl.tables import encoder as encoder_module
from svdkl.tables.bins import Target, choose_edges, read_target
from svdkl.tables.encoder import TabularEncoder
from svdkl.tables.layout import Codes, Flag, Layout, Number
from svdkl.tables.numbers import PARTS, compress, robust_scale, time_part
from svdkl.tables.schema import IgnoredColumn, NumberColumn, Schema, TimeColumn, TimePart

DATA = Path(os.environ.get("SVDKL_DATA", Path(__file__).parents[4] / "shared" / "data"))
NAN = float("nan")


def column(values: Any, name: str = "a") -> pa.Table:
    return pa.table({name: values})


def encode(values: Any, then: Any = None, **options: Any) -> list[list[float]]:
    """Fit one column, and encode it or another."""
    encoder = TabularEncoder(**options).fit(column(values))
    return encoder.transform(column(values if then is None else then)).tolist()


# ----------------------------------------------------------------------------------------------------------- numbers


def slow_scale(values: list[float]) -> tuple[float, float]:
    """The median, and the range between two quantiles over that of a standard normal."""
    ordered = sorted(values)
    last = len(ordered) - 1
    if len(set(ordered)) == 2:
        return ordered[last // 2], ordered[-1] - ordered[0]
    normal = {0.05: 3.290, 0.01: 4.653, 0.001: 6.180, 0.0: 6.180}
    for share, width in normal.items():
        span = ordered[last - math.floor(share * last)] - ordered[math.floor(share * last)]
        if span > 0:
            return ordered[last // 2], span / width
    raise AssertionError


def slow_compress(x: float, centre: float, scale: float) -> float:
    t = (x - centre) / scale
    return t if abs(t) <= 3 else math.copysign(3 + math.asinh(abs(t) - 3), t)


NUMBERS = {
    "normal": np.random.default_rng(0).normal(5, 2, 1000),
    "heavy tails": np.random.default_rng(1).standard_cauchy(1000),
    "log-normal": np.exp(3 * np.random.default_rng(2).normal(size=777)),
    "mostly zero": np.where(np.arange(500) % 50 == 0, np.arange(500.0), 0),
    "one of a thousand": np.where(np.arange(3000) % 1000 == 7, np.arange(3000.0), 0),
    "two values": np.array([7.0, 7.0, 9.0, 7.0]),
    "two values, the larger usual": np.array([7.0, 9.0, 9.0]),
    "few rows": np.array([1.0, 2.0, 4.0]),
    "far from zero": 1e9 + np.arange(100.0),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_scaled_and_compressed(name: str) -> None:
    values = NUMBERS[name]
    centre, scale = slow_scale(values.tolist())
    expected = [slow_compress(x, centre, scale) for x in values.tolist()]
    encoder = TabularEncoder().fit(column(values))
    assert [type(feature) for feature in encoder.layout.features] == [Number]
    torch.testing.assert_close(encoder.transform(column(values))[:, 0], torch.tensor(expected), rtol=1e-6, atol=1e-6)


def test_two_values_become_zero_and_one() -> None:
    assert encode([7, 7, 9, 7]) == [[0], [0], [1], [0]]
    assert encode([7, 9, 9, 9]) == [[-1], [0], [0], [0]]
    assert encode([0, 1, 0, 0, 0], then=[0, 1, 2]) == [[0], [1], [2]]


def test_the_bulk_keeps_its_shape_whatever_the_outliers() -> None:
    bulk = np.random.default_rng(0).normal(size=1000)
    with_outliers = np.append(bulk, [1e12, -1e15])
    z = TabularEncoder().fit(column(with_outliers)).transform(column(with_outliers))[:, 0]
    assert 0.9 < z[:1000].std() < 1.1
    assert z.abs().max() < 40


def test_extreme_numbers_stay_finite() -> None:
    for values in (
        [1e308, -1e308, 0.0],
        [5e-324, 0.0, 1.0],
        [5e-324, 0.0],
        [-1.7e308, 1.7e308],
        [1e-300, 2e-300, 1e300],
    ):
        z = TabularEncoder().fit(column(values)).transform(column([*values, 1.7e308, -1.7e308]))
        assert z.isfinite().all()


def test_missing_numbers_have_a_flag_and_stand_at_the_median() -> None:
    encoder = TabularEncoder().fit(column([1.0, None, 2.0, 3.0]))
    assert encoder.layout.features[1] == Flag("a missing")
    x = encoder.transform(column([None, 2.0, NAN]))
    assert x.tolist() == [[0, 1], [0, 0], [0, 1]]


def test_missing_numbers_that_never_were_stand_at_the_median() -> None:
    encoder = TabularEncoder().fit(column([1.0, 2.0, 3.0]))
    assert encoder.transform(column([None, 2.0])).tolist() == [[0], [0]]


def test_a_number_that_is_constant_but_for_missing_values_is_a_flag() -> None:
    encoder = TabularEncoder().fit(column([5.0, None, 5.0]))
    assert encoder.layout == Layout((Flag("a missing"),))
    assert encoder.transform(column([None, 5.0, 7.0])).tolist() == [[1], [0], [0]]


def test_whole_numbers_of_few_values_stay_numbers() -> None:
    assert isinstance(TabularEncoder().fit(column([1, 2, 3, 1, 2, 3])).layout.features[0], Number)


# ------------------------------------------------------------------------------------------------------------- bins


def test_edges_are_the_thresholds_of_a_tree() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=3000).astype(np.float32)
    y = (np.sin(4 * z) + rng.normal(size=3000) > 0).astype(int)
    edges = choose_edges(z, Target(y, True), 16)
    tree = DecisionTreeClassifier(max_leaf_nodes=16, min_samples_leaf=5, random_state=0).fit(z[:, None], y)
    thresholds = sorted(t for t, left in zip(tree.tree_.threshold, tree.tree_.children_left, strict=True) if left >= 0)
    assert edges[1:-1] == tuple(np.float32(thresholds).tolist())
    assert len(edges) == 17
    ordered = np.sort(z)
    for outer, tail, extreme in ((edges[0], ordered[2], ordered[0]), (edges[-1], ordered[-3], ordered[-1])):
        assert outer in (tail, extreme)


def test_edges_for_real_targets_ignore_outliers() -> None:
    z = np.linspace(-1, 1, 2000, dtype=np.float32)
    y = np.where(z > 0.25, 1.0, 0.0)
    y[:3] = 1e9
    target = read_target(y, 2000, np.arange(2000), "regression")
    edges = choose_edges(z, target, 3)
    assert min(abs(edge - 0.25) for edge in edges) < 1e-3
    tree = DecisionTreeRegressor(max_leaf_nodes=3, min_samples_leaf=5, random_state=0).fit(z[:, None], target.values)
    assert edges[1:-1] == tuple(sorted(np.float32(tree.tree_.threshold[tree.tree_.children_left >= 0]).tolist()))


def test_edges_without_a_target() -> None:
    few = np.float32([0, 0, 1, 3, 3, 3])
    assert choose_edges(few, None, 64) == (0.0, 0.5, 2.0, 3.0)
    many = np.arange(1001, dtype=np.float32)
    assert choose_edges(many, None, 4) == (1.0, 250.0, 500.0, 750.0, 999.0)
    assert choose_edges(np.float32([1, 1, 2]), None, 4) == ()
    assert choose_edges(np.float32([1, 1, 1]), None, 4) == ()
    assert choose_edges(np.float32([]), None, 4) == ()


def test_edges_are_exact_in_single_precision() -> None:
    z = np.float32(1) + np.arange(40, dtype=np.float32) * np.finfo(np.float32).eps  # neighbours
    for target in (None, Target(np.arange(40) // 5, True)):
        edges = choose_edges(z, target, 64)
        assert list(edges) == sorted(set(np.float32(edges).tolist()))


def test_edges_are_in_scaled_coordinates() -> None:
    x = np.repeat([100.0, 200.0, 300.0, 900.0], 50)
    y = np.repeat([0, 0, 1, 1], 50)
    encoder = TabularEncoder().fit(column(x), y, "classification")
    (number,) = encoder.schema.columns
    z = [slow_compress(value, number.centre, number.scale) for value in (100, 250, 900)]
    assert number.edges == pytest.approx(z, rel=1e-5)


def test_targets() -> None:
    def read(y: Any, task: Any = None) -> Target:
        return read_target(y, len(y), np.arange(len(y)), task)

    assert read(["b", "a", "b"]).by_class
    assert read([True, False]).by_class
    assert read([0, 1, 2]).by_class
    assert read(np.array([0.0, 1.0])).by_class
    assert not read([0.5, 1.0]).by_class
    assert not read(list(range(60))).by_class
    assert not read([0, 1, 2], "regression").by_class
    assert read(np.array([[1], [0]])).values.tolist() == [1, 0]
    assert read(np.zeros((4, 3))).values.shape == (4, 3)
    many = read([*range(200), *range(150)], "classification").values
    assert sorted(set(many.tolist())) == list(range(50))
    assert read(torch.tensor([0, 1, 1]), "classification").values.tolist() == [1, 0, 0]


def test_missing_rows_do_not_move_the_bins() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=400), rng.integers(0, 2, 400)
    alone = TabularEncoder().fit(column(x), y).schema.columns[0]
    padded = np.full(800, NAN)
    padded[::2] = x
    with_missing = TabularEncoder().fit(column(padded), np.repeat(y, 2)).schema.columns[0]
    assert (alone.centre, alone.scale, alone.edges) == (with_missing.centre, with_missing.scale, with_missing.edges)


def test_large_tables_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_module, "SAMPLE", 2000)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 2))
    x[:, 1] = 0
    x[7, 1] = 5  # hardly in the sample, but it varies
    x[rng.permutation(20_000)[:19_990], 0] = NAN  # ten values are left
    first, again = (TabularEncoder(seed=3).fit(x, x[:, 1] > 0) for _ in range(2))
    assert first.to_json() == again.to_json()
    ten, five = first.schema.columns
    assert ten.centre == np.sort(x[~np.isnan(x[:, 0]), 0])[4]
    assert (five.centre, five.scale) == (0, 5)
    assert first.transform(x).isfinite().all()


# ------------------------------------------------------------------------------------------------ booleans, categories


def test_booleans() -> None:
    assert encode([True, False]) == [[1], [0]]
    encoder = TabularEncoder().fit(column([True, True, False, None]))
    assert encoder.layout == Layout((Flag("a"), Flag("a missing")))
    assert encoder.transform(column([None, False, True])).tolist() == [[1, 1], [0, 0], [1, 0]]
    assert encoder.transform(column([0, 1, 1.0])).tolist() == [[0, 0], [1, 0], [1, 0]]
    assert TabularEncoder().fit(column([True, None])).layout == Layout((Flag("a missing"),))


def slow_codes(values: list, then: list, min_count: int, max_categories: int) -> list[int]:
    count = Counter(value for value in values if value is not None)
    needed = min(min_count, max(1, len(values) // 20))
    kept = sorted((value for value in count if count[value] >= needed), key=lambda value: (-count[value], value))
    kept = kept[:max_categories]
    missing = len(kept) + 1 if None in values else 0
    return [missing if value is None else kept.index(value) + 1 if value in kept else 0 for value in then]


@pytest.mark.parametrize("min_count", [1, 3, 10])
@pytest.mark.parametrize("max_categories", [2, 5, 1000])
@pytest.mark.parametrize("blank", [None, "a"])
def test_codes_of_categories(min_count: int, max_categories: int, blank: str | None) -> None:
    rng = np.random.default_rng(0)
    values = ["abcdefghijk"[i] for i in np.minimum(rng.geometric(0.3, 400), 11) - 1]
    values[::9] = [blank] * len(values[::9])
    then = [*values, "new", None]
    options = {"min_count": min_count, "max_categories": max_categories}
    encoder = TabularEncoder(**options).fit(column(values))
    codes = encoder.transform(column(then))[:, 0].tolist()
    assert codes == slow_codes(values, then, **options)
    (feature,) = encoder.layout.features
    assert isinstance(feature, Codes)
    assert feature.cardinality == 1 + max(codes)


def test_few_codes_are_one_hot_and_many_embedded() -> None:
    values = [f"v{i % 5}" for i in range(100)]
    for max_onehot, onehot in ((6, True), (5, False), (0, False)):
        encoder = TabularEncoder(max_onehot=max_onehot).fit(column(values))
        assert encoder.layout == Layout((Codes("a", 6, onehot),))


def test_text_that_is_numbers_is_numbers_if_all_of_it_is() -> None:
    encoder = TabularEncoder().fit(column(["1", "2.5", " 3e0 ", None]))
    assert encoder.schema.columns[0].kind == "number"
    same = TabularEncoder().fit(column([1, 2.5, 3, None]))
    assert encoder.schema == same.schema
    assert encoder.transform(column(["2.5", "1"])).equal(encoder.transform(column([2.5, 1])))
    for text in (["1", "x"], ["1", "nan"], ["1", "inf"], ["1", "1_000"], ["1", ""]):
        assert TabularEncoder().fit(column(text)).schema.columns[0].kind == "category"
    declared = pd.DataFrame({"a": pd.Categorical(["1", "2", "1"])})
    assert TabularEncoder().fit(declared).schema.columns[0].kind == "category"


def test_part_of_a_mixed_column_may_look_like_numbers() -> None:
    encoder = TabularEncoder().fit(column(["250", "V57", "250.5", "250"]))
    expected = encoder.transform(column(["250", "250.5", "7"])).tolist()
    assert encoder.transform(column([250.0, 250.5, 7.0])).tolist() == expected
    assert encoder.transform(column([None, 250])).tolist() == [[0], [1]]
    truths = TabularEncoder().fit(column(["True", "False", "perhaps"]))
    assert truths.transform(column([True, False])).equal(truths.transform(column(["True", "False"])))


# -------------------------------------------------------------------------------------------------------------- times


def slow_part(time: datetime.datetime, part: str) -> float:
    if part == "elapsed":
        return (time - datetime.datetime(1970, 1, 1)).total_seconds()
    cycle, function = part.split()
    turn = {
        "hour": (time - time.replace(hour=0, minute=0, second=0, microsecond=0)).total_seconds() / 86400,
        "weekday": time.weekday() / 7,
        "month": (time.month - 1) / 12,
    }[cycle]
    return getattr(math, function)(2 * math.pi * turn)


TIMES = [
    datetime.datetime(year, 1 + (5 * year + i) % 12, 1 + i, (7 * i) % 24, (11 * i) % 60, i, 1000 * i)
    for year in (1955, 1970, 2024)
    for i in range(28)
]


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_times(part: str) -> None:
    expected = [slow_part(time, part) for time in TIMES]
    assert time_part(np.array(TIMES, "datetime64[us]"), part) == pytest.approx(expected, abs=1e-9)


def test_times_become_numbers() -> None:
    encoder = TabularEncoder().fit(column([*TIMES, None]))
    assert [feature.name for feature in encoder.layout.features] == [*(f"a {part}" for part in PARTS), "a missing"]
    x = encoder.transform(column([*TIMES, None]))
    elapsed = [slow_part(time, "elapsed") for time in TIMES]
    expected = [slow_compress(value, *slow_scale(elapsed)) for value in elapsed]
    assert x[:-1, 0].tolist() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    for i, part in enumerate(PARTS[1:], 1):
        assert x[:-1, i].tolist() == pytest.approx([slow_part(time, part) for time in TIMES], abs=1e-6)
    assert x[-1].tolist() == [0, 0, 0, 0, 0, 0, 0, 1]


def test_only_parts_that_vary() -> None:
    def names(times: list) -> list[str]:
        return [feature.name.removeprefix("a ") for feature in TabularEncoder().fit(column(times)).layout.features]

    noon = datetime.datetime(2024, 3, 4, 12)
    assert names([noon + datetime.timedelta(days=7 * i) for i in range(3)]) == ["elapsed"]
    assert names([noon + datetime.timedelta(days=i) for i in range(3)]) == ["elapsed", "weekday sin", "weekday cos"]
    assert names([noon, noon + datetime.timedelta(hours=5)]) == ["elapsed", "hour sin", "hour cos"]
    assert names([noon, None]) == ["missing"]


def test_text_that_is_times() -> None:
    text = [time.isoformat(" ") for time in TIMES]
    encoder = TabularEncoder().fit(column(text))
    assert encoder.schema == TabularEncoder().fit(column(TIMES)).schema
    assert encoder.transform(column(text)).equal(encoder.transform(column(TIMES)))
    for other in ("today", "2024-02-30", "2024-1-1"):
        assert TabularEncoder().fit(column(["2024-02-29", other])).schema.columns[0].kind == "category"


# ------------------------------------------------------------------------------------------------------------ ignored


def test_columns_that_tell_nothing_are_ignored() -> None:
    table = pa.table(
        {
            "x": [1, 2, 3],
            "one": [4, 4, 4],
            "word": ["w", "w", "w"],
            "yes": [True, True, True],
            "then": [TIMES[0]] * 3,
            "none": pa.nulls(3),
            "blank": pa.array([None] * 3, pa.string()),
        }
    )
    encoder = TabularEncoder().fit(table)
    assert encoder.schema.columns[1:] == (
        *(IgnoredColumn(name, "constant") for name in ("one", "word", "yes", "then")),
        *(IgnoredColumn(name, "empty") for name in ("none", "blank")),
    )
    assert len(encoder.layout) == 1
    assert encoder.transform(table.select(["x"])).equal(encoder.transform(table))  # they need not even be there


def test_names_of_persons_are_ignored() -> None:
    table = pa.table({"x": range(400), "name": [f"person {i}" for i in range(400)]})
    assert TabularEncoder().fit(table).schema.columns[1] == IgnoredColumn("name", "no value often enough")


# ------------------------------------------------------------------------------------------------------- whole tables


def mixed(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    text = np.array(["red", "green", "blue", "37", "Größe"], dtype=object)[rng.integers(0, 5, rows)]
    text[rng.random(rows) < 0.1] = None
    number = rng.standard_cauchy(rows)
    number[rng.random(rows) < 0.2] = NAN
    when = np.datetime64("2023-01-01", "us") + rng.integers(0, 10**14, rows).astype("timedelta64[us]")
    when[rng.random(rows) < 0.1] = np.datetime64("NaT")
    return pd.DataFrame(
        {
            "whole": rng.integers(-5, 50, rows),
            "number": number,
            "text": pd.Series(text, dtype=object),
            "truth": rng.random(rows) < 0.3,
            "when": when,
            "same": 1.0,
        }
    )


FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "pandas, nullable": lambda frame: frame.convert_dtypes(),
    "pandas, arrow": lambda frame: pa.Table.from_pandas(frame).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda frame: pl.from_arrow(pa.Table.from_pandas(frame)),
    "pyarrow": pa.Table.from_pandas,
    "numpy": lambda frame: frame.to_numpy(dtype=object),
    "lists": lambda frame: frame.to_numpy(dtype=object).tolist(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("with_target", [True, False])
def test_all_kinds_of_tables_give_the_same(form: str, with_target: bool) -> None:
    frame, other = mixed(), mixed(100, 1)
    y = (frame["whole"] > 20).to_numpy() if with_target else None
    reference = TabularEncoder().fit(frame, y)
    encoder = TabularEncoder().fit(FORMS[form](frame), y)
    if form in ("numpy", "lists"):
        renamed = [feature.name.split()[0] for feature in encoder.layout.features]
        assert set(renamed) == {"x0", "x1", "x2", "x3", "x4"}
    else:
        assert encoder.to_json() == reference.to_json()
    for table in (frame, other):
        expected = reference.transform(table)
        assert encoder.transform(FORMS[form](table)).equal(expected)
        assert reference.transform(FORMS[form](table)).equal(expected)
    assert expected.dtype == torch.float32
    assert expected.is_contiguous()
    assert expected.shape == (100, len(encoder.layout))
    assert expected.isfinite().all()


def test_columns_may_come_in_any_order() -> None:
    frame = mixed()
    encoder = TabularEncoder().fit(frame)
    assert encoder.transform(frame[frame.columns[::-1]]).equal(encoder.transform(frame))


def test_json_round_trip_is_exact() -> None:
    frame, other = mixed(), mixed(100, 1)
    encoder = TabularEncoder(max_onehot=3, num_bins=16).fit(frame, frame["whole"] / 7, "regression")
    text = json.dumps(encoder.to_json(), allow_nan=False)
    again = TabularEncoder.from_json(json.loads(text))
    assert json.dumps(again.to_json()) == text
    assert again.schema == encoder.schema
    assert again.layout == encoder.layout
    assert again.transform(other).equal(encoder.transform(other))
    assert Layout.from_json(json.loads(json.dumps(encoder.layout.to_json()))) == encoder.layout
    assert Schema.from_json(json.loads(json.dumps(encoder.schema.to_json()))) == encoder.schema

    def plain(value: Any) -> bool:
        if isinstance(value, dict):
            return all(type(key) is str and plain(part) for key, part in value.items())
        return all(map(plain, value)) if type(value) is list else type(value) in (str, float, int, bool, type(None))

    assert plain(encoder.to_json())
    assert plain(encoder.layout.to_json())


def test_copies() -> None:
    frame = mixed()
    encoder = TabularEncoder().fit(frame)
    for other in (copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))):
        assert other.transform(frame).equal(encoder.transform(frame))


def test_no_rows_to_transform() -> None:
    encoder = TabularEncoder().fit(mixed())
    for form in FORMS.values():
        if form is not FORMS["lists"]:
            assert encoder.transform(form(mixed(10)[:0])).shape == (0, len(encoder.layout))
    assert encoder.transform(np.empty((0, 6))).shape == (0, len(encoder.layout))


# ------------------------------------------------------------------------------------------------------------ refused


@pytest.fixture
def _unchecked_shapes() -> Iterator[None]:
    """As users have them."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def test_columns_that_are_missing() -> None:
    encoder = TabularEncoder().fit(mixed())
    refused(lambda: encoder.transform(mixed().drop(columns=["text", "whole"])), "without 'whole', 'text'", "add what")
    many = TabularEncoder().fit(pd.DataFrame(np.eye(9), columns=list("abcdefghi")))
    refused(lambda: many.transform(pd.DataFrame({"a": [1]})), "'b', 'c', 'd', 'e', 'f' and 3 more")


def test_further_columns_are_ignored_with_one_warning() -> None:
    frame = mixed()
    encoder = TabularEncoder().fit(frame)
    expected = encoder.transform(frame)
    frame["new"], frame["nested"] = 1, [[1]] * len(frame)
    with pytest.warns(
        UserWarning, match=r"^Expected only the columns .* got 'new', 'nested' beside them: ignored.$"
    ) as w:
        assert encoder.transform(frame).equal(expected)
    assert len(w) == 1


def test_arrays_of_another_width() -> None:
    encoder = TabularEncoder().fit(np.eye(3))
    words = "X has 2 features, but TabularEncoder is expecting 3 features as input"
    refused(lambda: encoder.transform(np.eye(3)[:, :2]), words)
    refused(lambda: encoder.transform(pd.DataFrame({"x0": [1], "x1": [2]})), words)
    assert encoder.transform(pd.DataFrame(np.eye(3), columns=list("abc"))).equal(encoder.transform(np.eye(3)))


@pytest.mark.parametrize(
    ("fitted", "then", "parts"),
    [
        ([1, 2, 3], ["1", "two"], ["numbers in column 'a'", "text such as 'two'"]),
        ([1, 2, 3], [TIMES[0]], ["numbers in column 'a'", "got times"]),
        ([True, False], [0, 2], ["booleans in column 'a'", "numbers other than 0 and 1"]),
        ([True, False], ["True"], ["booleans in column 'a'", "text such as 'True'"]),
        (["red", "blue"], [1.5], ["text in column 'a'", "got numbers"]),
        (["red", "blue"], [True], ["text in column 'a'", "got booleans"]),
        (["red", "blue"], [TIMES[0]], ["text in column 'a'", "got times"]),
        (TIMES, [5], ["times in column 'a'", "got numbers"]),
        (TIMES, ["noon"], ["times in column 'a'", "text such as 'noon'"]),
    ],
    ids=str,
)
def test_types_that_changed(fitted: list, then: list, parts: list[str]) -> None:
    encoder = TabularEncoder().fit(column(fitted))
    refused(lambda: encoder.transform(column(then)), "as when it was fitted", *parts)


@pytest.mark.parametrize("fitted", [[1, 2, 3], [True, False], ["red", "blue"], TIMES], ids=str)
@pytest.mark.parametrize("kind", [pa.null(), pa.string(), pa.int64(), pa.bool_(), pa.timestamp("s")], ids=str)
def test_a_column_of_nothing_has_no_type(fitted: list, kind: pa.DataType) -> None:
    encoder = TabularEncoder().fit(column([*fitted, None]))
    blank = encoder.transform(column(pa.array([None, None], kind)))
    assert blank.equal(encoder.transform(column([*fitted, None]))[-1:].expand(2, -1))


def test_tables_that_cannot_be_fitted() -> None:
    refused(lambda: TabularEncoder().fit(mixed()[:0]), "at least one row")
    refused(lambda: TabularEncoder().fit(np.zeros((3, 0))), "at least one column")
    refused(lambda: TabularEncoder().fit(np.ones((3, 2))), "at least one column that varies", "'x0'")
    refused(lambda: TabularEncoder().fit(np.array([[1.0], [np.inf]])), "finite numbers", "'x0'", "row 1")
    refused(lambda: TabularEncoder().fit(np.zeros((3, 1)) + 1j), "real numbers")
    refused(lambda: TabularEncoder().fit(pa.table({"a": [[1], [2]]})), "list", error=TypeError)


@pytest.mark.usefixtures("_unchecked_shapes")
def test_targets_that_do_not_fit() -> None:
    x = np.eye(3)
    refused(lambda: TabularEncoder().fit(x, [0, 1]), "one row for each of the 3", "(2,)")
    refused(lambda: TabularEncoder().fit(x, np.zeros((3, 1, 1))), "(3, 1, 1)")
    refused(lambda: TabularEncoder().fit(x, ["a", "b", "c"], "regression"), "finite numbers")
    refused(lambda: TabularEncoder().fit(x, [1.0, NAN, 2.0], "regression"), "finite numbers")
    refused(lambda: TabularEncoder().fit(x, [0, 1, 0], "ranking"), "'ranking'")


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"max_onehot": -1}, ["max_onehot", "at least 0", "-1"]),
        ({"max_categories": 0}, ["max_categories", "at least 1"]),
        ({"min_count": 0}, ["min_count"]),
        ({"num_bins": 1}, ["num_bins", "at least 2"]),
        ({"num_bins": 2.5}, ["num_bins", "2.5"]),
        ({"seed": True}, ["seed", "True"]),
    ],
)
@pytest.mark.usefixtures("_unchecked_shapes")
def test_options(options: dict, parts: list[str]) -> None:
    refused(lambda: TabularEncoder(**options).fit(np.eye(3)), *parts)


def test_before_fitting() -> None:
    for use in (lambda e: e.transform(np.eye(3)), lambda e: e.layout, lambda e: e.schema, lambda e: e.to_json()):
        refused(lambda use=use: use(TabularEncoder()), "fitted encoder", "call fit first")


@pytest.mark.usefixtures("_unchecked_shapes")
def test_json_that_is_not_ours() -> None:
    good = TabularEncoder().fit(mixed(), mixed()["truth"]).to_json()

    def changed(change: Callable[[dict], object]) -> dict:
        data = json.loads(json.dumps(good))
        change(data)
        return data

    def number(data: dict) -> dict:
        return data["schema"]["columns"][1]

    assert number(good)["kind"] == "number"
    for data in (
        None,
        [],
        {},
        changed(lambda d: d.update(format="other")),
        changed(lambda d: d.update(more=1)),
        changed(lambda d: d["options"].pop("seed")),
        changed(lambda d: d["options"].update(num_bins="64")),
        changed(lambda d: d.update(options=[])),
        changed(lambda d: d.update(schema=None)),
        changed(lambda d: d["schema"].update(named=1)),
        changed(lambda d: d["schema"].update(columns=1)),
        changed(lambda d: d["schema"]["columns"].append(5)),
        changed(lambda d: number(d).update(kind="os.system")),
        changed(lambda d: number(d).pop("centre")),
        changed(lambda d: number(d).update(more=1)),
        changed(lambda d: number(d).update(centre="0")),
        changed(lambda d: number(d).update(centre=NAN)),
        changed(lambda d: number(d).update(scale=0.0)),
        changed(lambda d: number(d).update(missing=1)),
        changed(lambda d: number(d).update(edges=3)),
        changed(lambda d: number(d).update(edges=["a"])),
        changed(lambda d: number(d).update(edges=[1.0, 0.0])),
        changed(lambda d: d["schema"]["columns"][4]["parts"][0].update(part="century")),
        changed(lambda d: d["schema"]["columns"][4]["parts"][0].update(scale=-1.0)),
        changed(lambda d: d["schema"]["columns"][4].update(parts=[1])),
    ):
        refused(lambda data=data: TabularEncoder.from_json(data))
    refused(lambda: Layout.from_json({}), "list of columns")
    refused(
        lambda: Layout.from_json([{"kind": "codes", "name": "a", "cardinality": True, "onehot": True}]), "cardinality"
    )
    negative = NumberColumn("a", True, 0.0, -1.0, (), (), False)
    refused(lambda: Schema.from_json(Schema((negative,), True).to_json()), "scale above 0")
    minute = TimeColumn("t", (TimePart("minute", 0.0, 1.0, (), ()),), False)
    refused(lambda: Schema.from_json(Schema((minute,), True).to_json()), "minute")


# ---------------------------------------------------------------------------------------------------------- real data


def real(name: str) -> pa.Table:
    path = DATA / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path.name} is not in SVDKL_DATA or ../shared/data")
    return pa.parquet.read_table(path)


def test_adult() -> None:
    table = real("adult")
    y, x = np.asarray(table["income"]), table.drop_columns(["income", "split"])
    encoder = TabularEncoder().fit(x, y, "classification")
    kinds = Counter(column.kind for column in encoder.schema.columns)
    assert kinds == {"number": 6, "category": 8}
    matrix = encoder.transform(x)
    assert matrix.shape == (48_842, 14)
    assert matrix.isfinite().all()
    country = encoder.schema.columns[-1]
    codes = matrix[:, -1].long().tolist()
    names = ["rare", *country.labels]
    rare = {name for name, count in Counter(x["native-country"].to_pylist()).items() if count < 10}
    assert rare == {"Holand-Netherlands"}
    for name, code in zip(x["native-country"].to_pylist(), codes, strict=True):
        assert names[code] == ("rare" if name in rare else name)
    again = TabularEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    for other in (x, x.to_pandas(), pl.from_arrow(x)):
        assert again.transform(other).equal(matrix)


def test_diabetes() -> None:
    table = real("diabetes130")
    y, x = np.asarray(table["readmitted"]), table.drop_columns(["readmitted", "encounter_id", "patient_nbr"])
    encoder = TabularEncoder().fit(x, y, "classification")
    ignored = {column.name for column in encoder.schema.columns if isinstance(column, IgnoredColumn)}
    assert ignored == {"examide", "citoglipton"}
    features = {feature.name: feature for feature in encoder.layout.features}
    assert features["diag_1"].cardinality > 300
    assert not features["diag_1"].onehot
    assert features["insulin"] == Codes("insulin", 5, True)
    matrix = encoder.transform(x)
    assert matrix.isfinite().all()
    for i, feature in enumerate(encoder.layout.features):
        if isinstance(feature, Codes):
            assert set(matrix[:, i].tolist()) <= set(range(feature.cardinality))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert encoder.transform(table.slice(500, 40)).equal(matrix[500:540])


def test_compress_is_what_it_says() -> None:
    x = np.linspace(-50, 50, 1001)
    assert compress(x, 1.0, 2.0) == pytest.approx([slow_compress(value, 1, 2) for value in x.tolist()], rel=1e-6)
    assert robust_scale(np.ones(3)) == (1.0, 1.0)


def test_frequent_values_are_levels():
    ten = np.repeat([3.0, 5.0, 7.0], 20)
    rare = np.array([4.0, 4.5])  # seen once each
    encoder = TabularEncoder().fit(pd.DataFrame({"a": np.concatenate([ten, rare]), "b": np.arange(62.0)}))
    a, b = encoder.layout.features
    encoded = encoder.transform(pd.DataFrame({"a": [3.0, 5.0, 7.0, 4.0], "b": np.arange(4.0)}))[:, 0].tolist()
    assert list(a.levels) == encoded[:3]
    assert encoded[3] not in a.levels
    assert b.levels == ()  # a fine scale


def test_few_rows_at_frequent_values_are_no_levels():
    mostly_fine = np.concatenate([np.repeat([3.0, 5.0, 7.0], 10), np.linspace(10, 20, 40)])
    encoder = TabularEncoder().fit(pd.DataFrame({"a": mostly_fine}))
    assert encoder.layout.features[0].levels == ()
