"""The options: one list for the estimators, the command line and saved models, each value checked once."""

import inspect
import json
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from torch import nn

from svdkl import SVDKLClassifier, SVDKLRegressor
from svdkl.estimators.options import (
    FLAG,
    POINTS,
    SIZES,
    WEIGHTS,
    WORD,
    Options,
    choice,
    command_line_fields,
    number,
    whole,
)

FIELDS = {one.name: one for one in fields(Options)}


@pytest.mark.parametrize("estimator", [SVDKLClassifier, SVDKLRegressor])
def test_every_parameter_is_an_option_of_that_default(estimator):
    parameters = [p for p in inspect.signature(estimator.__init__).parameters.values() if p.name != "self"]
    own = {name for name, one in FIELDS.items() if one.metadata["task"] in ("", estimator._targets.task)}
    assert {p.name for p in parameters} == own
    for parameter in parameters:
        option = FIELDS[parameter.name]
        assert parameter.default == option.default
        assert type(parameter.default) is type(option.default)
        assert option.metadata["kind"].check(option.name, option.default) == option.default


def test_what_only_a_program_can_give_is_no_option_of_the_command_line():
    assert set(FIELDS) - set(command_line_fields()) == {"net", "random_state", "warm_start", "verbose"}
    assert all(one.metadata["help"] for one in command_line_fields().values())


# ------------------------------------------------------------------------------------------------------------- values

SHARES = st.floats(0, 1, exclude_max=True)
SIZE_LISTS = st.lists(st.integers(1, 600), min_size=1, max_size=3)
LABELS = st.one_of(st.booleans(), st.integers(-5, 5), st.text(max_size=3))
VALUES = {
    "recipe": st.sampled_from(["svdkl", "dnn_gp", "dnn", "dnn_plus"]),
    "max_iter": st.one_of(st.just("auto"), st.integers(1, 99), st.integers(1, 99).map(np.int64)),
    "alpha": st.one_of(st.just("auto"), SHARES, SHARES.map(np.float64)),
    "validation_fraction": SHARES,
    "early_stopping": st.booleans(),
    "class_weight": st.one_of(st.none(), st.just("balanced"), st.dictionaries(LABELS, SHARES)),
    "device": st.sampled_from(["auto", "cpu"]),
    "hidden": st.one_of(st.just("auto"), SIZE_LISTS, SIZE_LISTS.map(tuple), SIZE_LISTS.map(np.array)),
    "grid_size": st.one_of(st.integers(1, 99), SIZE_LISTS.map(tuple)),
    "kernel": st.sampled_from(["rbf", "matern12"]),
    "random_state": st.one_of(st.none(), st.integers(0, 99)),
}


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_options_that_are_written_and_read_back_are_the_same(values):
    options = Options.of(values)
    assert Options.from_json(json.loads(json.dumps(options.to_json())), None) == options


@given(st.fixed_dictionaries({}, optional={**VALUES, "num_features": st.integers(1, 9)}))
def test_options_that_are_read_twice_are_the_same(values):
    """Checked values, free of numpy's types, are accepted as they are."""
    options = Options.of(values)
    assert Options.of({name: getattr(options, name) for name in FIELDS}) == options


def test_a_network_is_put_back_and_a_generator_is_forgotten():
    net = nn.Linear(2, 3)
    options = Options.of({"net": net, "random_state": np.random.RandomState(0)})
    data = options.to_json()
    assert (data["net"], data["random_state"]) == ("custom", None)
    assert Options.from_json(data, net).net is net
    refused(lambda: Options.of({"kernel": net}).to_json(), "kernel", "Linear", "objects are not stored")


@pytest.mark.parametrize(
    ("kind", "accepted", "others"),
    [
        (FLAG, [True, np.bool_(False)], [1, 0, "yes", None]),
        (WORD, ["dear"], ["", 3, None]),
        (choice("a", "b"), ["a"], ["c", "", None, 1]),
        (whole("auto"), ["auto", 1, np.int32(7)], ["many", 0, -1, 1.0, True, None]),
        (whole(), [3], ["auto", 2.5]),
        (number(0, 1), [0, 0.5, np.float32(0.25)], [1, -0.1, float("nan"), float("inf"), "auto", True, None]),
        (number(0, float("inf"), "auto"), ["auto", 1e9], [-1, float("inf"), "much"]),
        (SIZES, ["auto", [3, 4], (5,), np.array([6])], ["wide", [0], [1.5], 3, [True]]),
        (POINTS, [2, [3, 4], (5, 6)], ["many", 0, [0], [2.5], 1.5]),
        (WEIGHTS, [None, "balanced", {"yes": 2, 1: 0.5}], ["heavy", 2, {"yes": "much"}, {"yes": True}]),
    ],
)
def test_values_of_a_kind(kind, accepted, others):
    for value in accepted:
        kind.check("one", value)
    for value in others:
        refused(lambda value=value: kind.check("one", value), "Expected one to be")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (whole("auto"), "12", 12),
        (whole("auto"), "auto", "auto"),
        (number(0, 1), "1e-3", 1e-3),
        (SIZES, "8,9", [8, 9]),
        (POINTS, "16", 16),
        (WEIGHTS, "none", None),
        (WEIGHTS, "yes=2,3=0.5,true=3,a=b=1", {"yes": 2.0, 3: 0.5, True: 3.0, "a=b": 1.0}),
    ],
)
def test_values_that_are_typed(kind, text, value):
    assert kind.read("--one", text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (FLAG, "yes"),
        (whole(), "1.5"),
        (whole(), "auto"),
        (number(0), "nan"),
        (number(0), "inf"),
        (number(0), "x"),
        (SIZES, "8,x"),
        (SIZES, "8,,9"),
        (POINTS, "8,8"),
        (WEIGHTS, "yes=many"),
        (WEIGHTS, "heavy"),
    ],
)
def test_texts_that_are_no_values(kind, text):
    refused(lambda: kind.read("--one", text), "Expected --one to be", repr(text) if "=" not in text else "many")


# ------------------------------------------------------------------------------------------------------- other models


def test_a_model_is_not_trained_further_by_options_of_another():
    before = Options.of({"hidden": (8,), "net": None})
    for same in ({"hidden": [8]}, {"hidden": (8,), "max_iter": 3, "alpha": 0.5, "verbose": True, "evidence": False}):
        before.refuse_other_model(Options.of(same))
    changed = {"hidden": (9,), "num_features": 3, "grid_size": 16, "recipe": "dnn", "kernel": "matern12"}
    for name, value in changed.items():
        refused(
            lambda name=name, value=value: before.refuse_other_model(Options.of({"hidden": (8,), name: value})),
            f"Expected {name}=",
            "as the model was fitted with",
        )


def test_copies_of_a_network_are_one_model_and_long_ones_are_cut_short():
    nets = [nn.Sequential(*[nn.Linear(2, 2)] * 40) for _ in range(2)]
    one, copy = (Options.of({"net": net}) for net in nets)
    one.refuse_other_model(copy)
    with pytest.raises(ValueError, match=r"^Expected net=Sequential") as caught:
        one.refuse_other_model(Options.of({}))
    assert len(str(caught.value)) < 300
