"""Models with the user's own network, and images, on the command line: what works, and every refusal."""

import json
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from svdkl import SVDKLClassifier, SVDKLRegressor
from svdkl.cli.app import main
from svdkl.cli.saved_model import open_model
from svdkl.metrics import accuracy, rmse
from svdkl.nets.images import Standardise

NETS = """
import torch
from svdkl.nets.images import Standardise

WIDTH = 8

def pixels():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, WIDTH), torch.nn.ReLU())

def bytes_too():
    return torch.nn.Sequential(Standardise([0.0], [1.0]), *pixels())

def columns():
    return torch.nn.Sequential(torch.nn.Linear(2, WIDTH), torch.nn.ReLU())

def wider():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2 * WIDTH), torch.nn.ReLU())

def broken():
    raise RuntimeError("no such weights")

def nothing():
    pass

made = pixels()
"""
OPTIONS = {"max_iter": 2, "grid_size": 8, "evidence": False, "random_state": 0}


def load_model(path, net):
    """The estimator in a folder."""
    fitted = open_model(Path(path), net).fitted
    return (SVDKLRegressor if fitted.classes is None else SVDKLClassifier).of(fitted)


def net(num_inputs, *first):
    return torch.nn.Sequential(*first, torch.nn.Linear(num_inputs, 8), torch.nn.ReLU())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Models of images, of bytes, of real targets of images, and of a table, with networks of a module there."""
    folder = tmp_path_factory.mktemp("images")
    (folder / "own_nets.py").write_text(NETS)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (160, 4, 4)).astype(np.uint8)
    y = np.where(x.mean((1, 2)) > 127, 7, 3)
    small = (x / 255).astype(np.float32)
    flat, scale = torch.nn.Flatten(), Standardise.of(x[:, None])
    SVDKLClassifier(net=net(16, flat), **OPTIONS).fit(small[:, None], y).save(folder / "digits")
    SVDKLClassifier(net=net(16, scale, flat), **OPTIONS).fit(x[:, None], y).save(folder / "bytes")
    SVDKLRegressor(net=net(16, flat), **OPTIONS).fit(small, small.mean((1, 2))).save(folder / "means")
    np.savez(folder / "small.npz", x=small[:40], y=y[:40].astype(np.uint8))
    np.savez(folder / "keras.npz", x_train=x[40:], y_train=y[40:], x_test=x[:40], y_test=y[:40].astype(np.uint8))
    np.savez(folder / "means.npz", x=small[:40], y=small[:40].mean((1, 2)))
    table = pd.DataFrame(rng.normal(size=(160, 2)).astype(np.float32), columns=["a", "b"])
    SVDKLClassifier(net=net(2), **OPTIONS).fit(table, table["a"] > 0).save(folder / "rows")
    table.assign(above=table["a"] > 0).to_parquet(folder / "rows.parquet")
    SVDKLClassifier(**OPTIONS, hidden=(8,)).fit(table, table["a"] > 0).save(folder / "ours")
    return folder


@pytest.fixture
def place(prepared, tmp_path, monkeypatch):
    folder = shutil.copytree(prepared, tmp_path / "here")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_nets", raising=False)
    return folder


@pytest.fixture
def call(place, capfd):
    """Run a command; gives what it printed, or the one sentence of its refusal."""

    def call(arguments, code=0):
        before = set(place.rglob("*"))
        capfd.readouterr()
        got = main(shlex.split(arguments))
        output, errors = capfd.readouterr()
        assert got == code, errors
        if code == 0:
            return output
        assert output == ""
        (sentence,) = errors.splitlines()
        assert sentence.startswith("Expected ")
        assert sentence.endswith(".")
        assert {path for path in place.rglob("*") if "__pycache__" not in path.parts} == before
        return sentence

    return call


# ---------------------------------------------------------------------------------------------------------- what works


def test_predictions_of_images(call, place):
    call("predict digits small.npz --net own_nets:pixels --out p.csv --uncertainty")
    x = np.load("small.npz")["x"][:, None]
    model = load_model("digits", "own_nets:pixels")
    got = pd.read_csv("p.csv")
    assert got[["p_3", "p_7"]].to_numpy() == pytest.approx(model.predict_proba(x))
    assert got["label"].tolist() == model.predict(x).tolist()
    assert got["ood_score"].to_numpy() == pytest.approx(model.predict_uncertainty(x).ood_score)


def test_scores_of_images(call, place):
    found = json.loads(call("evaluate digits small.npz --net own_nets:pixels --json"))
    data = np.load("small.npz")
    model = load_model("digits", "own_nets:pixels")
    p = model.predict_proba(data["x"][:, None])
    assert (found["target"], found["rows"]) == ("y", 40)
    assert found["metrics"]["accuracy"]["value"] == pytest.approx(accuracy(p, (data["y"] == 7).astype(int)))
    data = np.load("means.npz")
    found = json.loads(call("evaluate means means.npz --net own_nets:pixels --json"))  # a model of (H, W)
    mean = load_model("means", "own_nets:pixels").predict(data["x"])
    assert found["metrics"]["rmse"]["value"] == pytest.approx(rmse(mean, data["y"]))


def test_bytes_stay_bytes_and_test_images_come_first(call, place, capfd):
    found = json.loads(call("evaluate bytes keras.npz --net own_nets:bytes_too --json"))
    data = np.load("keras.npz")
    p = load_model("bytes", "own_nets:bytes_too").predict_proba(data["x_test"][:, None])
    assert (found["target"], found["rows"]) == ("y_test", 40)
    assert found["metrics"]["accuracy"]["value"] == pytest.approx(accuracy(p, (data["y_test"] == 7).astype(int)))


def test_bytes_for_a_network_without_a_scale_are_told_of(call, place, capfd):
    capfd.readouterr()
    assert main(shlex.split("evaluate digits keras.npz --net own_nets:pixels")) == 0
    (warning,) = capfd.readouterr().err.splitlines()
    assert "numbers from 0 to 255" in warning
    assert main(shlex.split("evaluate bytes keras.npz --net own_nets:bytes_too")) == 0
    assert capfd.readouterr().err == ""


def test_a_report_on_images_with_its_figures(call, place):
    text = call("report bytes keras.npz --net own_nets:bytes_too --class 7 --figures drawn")
    assert text == "Wrote report.html, a report on 40 rows, and its figures in drawn.\n"
    page = Path("report.html").read_text()
    assert "which moves 7 most" in page
    assert '<img class="row" alt="Row ' in page
    assert Path("drawn/mixing.svg").read_text().startswith("<svg ")
    assert json.loads(call("report bytes keras.npz --net own_nets:bytes_too --json"))["figures"] is None


def test_a_table_and_a_network_of_ones_own(call, place):
    found = json.loads(call("evaluate rows rows.parquet --target above --net own_nets:columns --json"))
    table = pd.read_parquet("rows.parquet")
    p = load_model("rows", "own_nets:columns").predict_proba(table[["a", "b"]])
    assert found["metrics"]["accuracy"]["value"] == pytest.approx(accuracy(p, table["above"].to_numpy().astype(int)))
    assert call("predict rows rows.parquet --drop above --net own_nets:columns").count("\n") == 161
    call("report rows rows.parquet --target above --net own_nets:columns --out rows.html")
    assert "above" in Path("rows.html").read_text()


def test_an_export_with_a_network_of_ones_own(call, place):
    told = json.loads(call("export bytes --net own_nets:bytes_too --format torch --out e --data keras.npz --json"))
    assert told["checked_on"] == "40 given rows"


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "command", ["predict {} small.npz", "evaluate {} small.npz", "report {} small.npz", "export {} --out e"]
)
def test_a_network_that_is_missing_or_too_many(command, call):
    refusal = call(command.format("digits"), 2)
    assert "--net MODULE:NAME" in refusal
    assert "digits" in refusal
    refusal = call(command.format("ours") + " --net own_nets:pixels", 2)
    assert "no --net for ours" in refusal
    assert refusal.endswith("leave it out.")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("own_nets", ["MODULE:NAME", "'own_nets'"]),
        (":pixels", ["MODULE:NAME", "':pixels'"]),
        ("nowhere:Net", ["can be imported", "No module named 'nowhere'"]),
        ("failing:Net", ["can be imported", "ZeroDivisionError"]),
        ("leaving:Net", ["can be imported", "SystemExit"]),
        ("own_nets:pixel", ["own_nets.py", "no 'pixel'"]),
        ("own_nets:WIDTH", ["a class, or a function", "got int"]),
        ("own_nets:made", ["a class, or a function", "got Sequential"]),
        ("own_nets:nothing", ["a torch module", "got NoneType"]),
        ("own_nets:broken", ["without arguments", "RuntimeError: no such weights"]),
        ("torch.nn:Linear", ["without arguments", "in_features"]),
        ("own_nets:wider", ["got one with other parameters", "by --net"]),
    ],
)
def test_networks_that_are_none_of_the_models(name, parts, call):
    Path("failing.py").write_text("1 / 0")
    Path("leaving.py").write_text("raise SystemExit(7)")
    refusal = call(f"evaluate digits small.npz --net {name}", 2)
    for part in parts:
        assert part in refusal


@pytest.mark.parametrize(
    ("arrays", "part"),
    [
        ({"z": np.zeros((3, 4, 4))}, "'x' or 'x_test' of images in bad.npz, got 'z'"),
        ({"x": np.zeros((3, 4, 4))}, "'y' of labels"),
        ({"x": np.zeros((3, 4, 4)), "y": [3, 7]}, "each of 3 images in bad.npz, got 'y' of shape (2,)"),
        ({"x": np.zeros((3, 4, 4)), "y": [3, 7, 5]}, "got 5"),
        ({"x": np.zeros((3, 16)), "y": [3, 7, 3]}, "got float64 of shape (3, 16)"),
        ({"x": np.zeros((0, 4, 4)), "y": []}, "got float64 of shape (0, 4, 4)"),
        ({"x": np.array([[["a"]]]), "y": [3]}, "of numbers, got <U1"),
        ({"x": np.array([[[None]]], object), "y": [3]}, "cannot be read (Object arrays"),
        ({"x": np.full((3, 4, 4), np.nan), "y": [3, 7, 3]}, "finite pixels in 'x'"),
        ({"x": np.zeros((3, 5, 5)), "y": [3, 7, 3]}, "images of shape (1, 4, 4), as the model was fitted on"),
        ({"x": np.zeros((3, 4, 4, 1)), "y": [3, 7, 3]}, "got (4, 4, 1) in bad.npz"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "report"])
def test_images_that_cannot_be_used(command, arrays, part, call):
    np.savez("bad.npz", **arrays)
    assert part in call(f"{command} digits bad.npz --net own_nets:pixels", 2)


@pytest.mark.parametrize("command", ["predict", "evaluate", "report"])
def test_files_that_hold_no_images(command, call):
    whole = Path("small.npz").read_bytes()
    ask = f"{command} digits bad.npz --net own_nets:pixels"
    assert "no such file" in call(ask, 2)
    for content in (b"", b"words", whole[: len(whole) // 2]):
        Path("bad.npz").write_bytes(content)
        assert "bad.npz, but it cannot be read" in call(ask, 2)
    with Path("bad.npz").open("wb") as file:
        np.save(file, np.zeros((3, 4, 4)))
    assert "got none" in call(ask, 2)


def test_tables_and_images_in_the_wrong_place(call):
    assert "ends in .npz" in call("evaluate digits rows.parquet --net own_nets:pixels", 2)
    assert "a model of tables" in call("evaluate ours small.npz", 2)
    assert "a model of tables" in call("evaluate rows small.npz --net own_nets:columns", 2)
    for command, option in (
        ("evaluate", "--by x"),
        ("evaluate", "--target y"),
        ("report", "--drop x"),
        ("report", "--ignore-extra"),
        ("predict", "--columns id"),
    ):
        refusal = call(f"{command} digits small.npz --net own_nets:pixels {option}", 2)
        assert f"{option.split()[0]} for tables only" in refusal
    np.savez("text.npz", x=np.zeros((2, 4, 4)), y=["a", "b"])
    for command in ("evaluate", "report"):
        assert "Expected numbers" in call(f"{command} means text.npz --net own_nets:pixels", 2)


def test_a_folder_for_figures_that_is_a_file(call):
    refusal = call("report digits small.npz --net own_nets:pixels --figures small.npz", 2)
    assert "small.npz" in refusal
