"""What the estimators are given and cannot use is refused in one plain sentence."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from refusals import refused
from torch import Tensor, nn

from svdkl import SVDKLClassifier

SMALL = {"hidden": (16,), "num_features": 4, "grid_size": 8, "max_iter": 2, "random_state": 0}
X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)
TEXT = np.where(Y == 1, "yes", "no").astype(object)


class Function(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


# ------------------------------------------------------------------------------------------------------------ labels


def with_label(value) -> np.ndarray:
    labels = TEXT.copy()
    labels[[3, 7]] = value
    return labels


@pytest.mark.parametrize(
    "labels",
    [
        with_label(None),
        with_label(np.nan),
        with_label(pd.NA),
        with_label(pd.NaT),
        pd.Series(with_label(None), dtype="string"),
        pl.Series(with_label(None).tolist()),
        pa.array(with_label(None).tolist()),
    ],
    ids=["None", "nan", "NA", "NaT", "pandas", "polars", "pyarrow"],
)
def test_missing_labels(labels):
    refused(lambda: SVDKLClassifier(**SMALL).fit(X, labels), "a label in all rows", "2 missing", "drop")


@pytest.mark.parametrize("value", [1, 2.5, True])
def test_labels_of_several_kinds(value):
    refused(lambda: SVDKLClassifier(**SMALL).fit(X, with_label(value)), "one kind", "text beside other values")
    classes = np.array(["yes", "no", value], dtype=object)
    refused(lambda: SVDKLClassifier(**SMALL).partial_fit(X, TEXT, classes=classes), "one kind")


def test_times_beside_text_are_no_labels():
    labels = with_label(datetime.date(2024, 1, 1))
    refused(lambda: SVDKLClassifier(**SMALL).fit(X, labels), "one kind", error=TypeError)


def test_labels_of_numpys_own_text():
    model = SVDKLClassifier(**SMALL).fit(X, TEXT.astype(np.dtypes.StringDType()))
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(X)) <= {"no", "yes"}


# ----------------------------------------------------------------------------------------------------------- devices


@pytest.mark.parametrize("device", ["cuda:63", "meta", torch.device("meta")])
def test_a_device_that_this_machine_has_not(device):
    refused(lambda: SVDKLClassifier(**SMALL, device=device).fit(X, Y), "device", "this machine", repr(device))


# ---------------------------------------------------------------------------------------------------------- networks


@pytest.mark.parametrize(
    ("net", "parts"),
    [
        (nn.Linear(5, 4), ["rows of shape (3,)", "float32", "cannot"]),
        (nn.Linear(3, 4).double(), ["rows of shape (3,)", "float32", "cannot"]),
        (nn.LazyLinear(4), ["lazy"]),
        (nn.Unflatten(1, (3, 1)), ["(rows, features)", "(2, 3, 1) for 2 rows"]),
        (nn.LSTM(3, 4), ["(rows, features)", "tuple"]),
        (Function(lambda x: x.reshape(-1, 1)), ["(rows, features)", "(6, 1) for 2 rows"]),
        (Function(lambda x: x.mean(0, keepdim=True)), ["(rows, features)", "(1, 3) for 2 rows"]),
        (Function(lambda x: x[:, :0]), ["(rows, features)", "(2, 0)"]),
        (Function(lambda x: x > 0), ["floating point", "torch.bool"]),
    ],
    ids=["width", "double", "lazy", "three axes", "tuple", "more rows", "fewer rows", "no features", "booleans"],
)
def test_networks_that_do_not_turn_rows_into_features(net, parts):
    refused(lambda: SVDKLClassifier(**SMALL, net=net).fit(X, Y), *parts)


@pytest.mark.parametrize("recipe", ["dnn", "svdkl", "dnn_gp"])
def test_a_network_that_normalises_over_a_batch_never_sees_one_row(recipe):
    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8))
    options = {**SMALL, "net": net, "recipe": recipe, "batch_size": 29, "evidence": False, "early_stopping": False}
    assert SVDKLClassifier(**options).fit(X[:59], Y[:59]).n_iter_ == 2  # 59 = 2 x 29 + 1


# ------------------------------------------------------------------------------------------------------ held-out rows


@pytest.mark.parametrize(
    "eval_set", ["rubbish", (X,), X, [(X, Y)], (X, Y, None, None)], ids=lambda given: type(given).__name__
)
def test_held_out_rows_that_are_none_are_refused_also_where_none_are_needed(eval_set):
    for options in ({}, {"evidence": False, "early_stopping": False}):
        refused(lambda options=options: SVDKLClassifier(**SMALL, **options).fit(X, Y, eval_set=eval_set), "eval_set")


def test_held_out_rows_that_are_not_needed_change_nothing():
    options = {**SMALL, "evidence": False, "early_stopping": False}
    one, other = SVDKLClassifier(**options).fit(X, Y), SVDKLClassifier(**options).fit(X, Y, eval_set=(X, 1 - Y))
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
