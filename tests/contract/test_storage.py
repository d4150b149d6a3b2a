"""A saved model: comes back bit for bit, or is refused in one sentence."""

import json
import os
import shutil
import sys
from pathlib import Path
from unittest.mock import Mock

import jaxtyping
import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refused
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from torch import nn

import svdkl.estimators.storage as folder_module
from svdkl import SVDKLClassifier, SVDKLRegressor, writing
from svdkl.training.checkpoint import Checkpoint, Snapshot
from svdkl.training.config import RECIPES
from svdkl.writing import folder_put_in_place, written_whole

SMALL = {"hidden": (16,), "num_features": 6, "grid_size": 8, "max_iter": 3, "evidence": False, "random_state": 0}


def table(num_rows=150):
    X, y = make_blobs(num_rows, centers=3, random_state=0, cluster_std=3.0)
    frame = pd.DataFrame({"size": X[:, 0], "sign": np.where(X[:, 1] > 0, "plus", "minus"), "other": X[:, 1]})
    frame.loc[::7, "size"] = np.nan
    return frame, y


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    X, y = table()
    model = SVDKLClassifier(**{**SMALL, "evidence": True}).fit(X, y)
    path = tmp_path_factory.mktemp("models") / "model"
    model.save(path)
    return model, path


@pytest.fixture
def copied(saved, tmp_path):
    return shutil.copytree(saved[1], tmp_path / "copy")


@pytest.fixture(params=["two renames", "an exchange"])
def interrupted(monkeypatch, request):
    """An interrupt comes when a new folder is to take its place."""
    if request.param == "an exchange":
        monkeypatch.setattr(writing, "_exchange", Mock(side_effect=KeyboardInterrupt))
        return
    monkeypatch.setattr(writing, "_exchange", lambda one, other: False)
    rename = Path.rename

    def interrupt(self, target):
        if self.name == "new":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupt)


@pytest.mark.usefixtures("interrupted")
@pytest.mark.parametrize("when", ["filled", "moved"])
def test_an_interrupt_leaves_the_old_folder(tmp_path, when):
    path = tmp_path / "model"
    path.mkdir()
    (path / "old").touch()

    def write():
        with folder_put_in_place(path) as new:
            (new / "new").touch()
            if when == "filled":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert [file.name for file in tmp_path.rglob("*")] == ["model", "old"]


@pytest.mark.usefixtures("interrupted")
def test_an_interrupt_leaves_a_relative_link(tmp_path):
    (tmp_path / "real").mkdir()
    path = tmp_path / "links" / "model"
    path.parent.mkdir()
    path.symlink_to("../real")
    with pytest.raises(KeyboardInterrupt), folder_put_in_place(path):
        pass
    assert path.resolve() == (tmp_path / "real").resolve()


def killed_after(steps, work):
    """Do some work in a child process that ends itself after so many lines of ``svdkl.writing``; tell whether it did.

    The child ends as a process that is killed: nothing of it is cleaned up.
    """

    def count(frame, event, argument):
        nonlocal steps
        if frame.f_code.co_filename != writing.__file__:
            return None
        steps -= event == "line"
        if steps < 0:
            os._exit(9)
        return count

    pid = os.fork()
    if pid == 0:
        try:
            sys.settrace(count)
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 9)
    return code == 9


@pytest.mark.skipif(sys.platform != "linux", reason="other systems rename twice")
def test_a_save_that_is_killed_at_any_step_leaves_a_whole_folder(tmp_path):
    path = tmp_path / "model"

    def save(name):
        with folder_put_in_place(path) as new:
            for file in ("one", "other"):
                (new / file).write_text(name)

    save("old")
    found = []
    for steps in range(100):
        killed = killed_after(steps, lambda: save("new"))
        texts = {(path / file).read_text() for file in ("one", "other")}
        assert len(texts) == 1
        found += texts
        if not killed:
            break
        save("old")
    assert found == sorted(found, reverse=True)  # first old ones, then new ones
    assert set(found[:-1]) == {"old", "new"}


# ------------------------------------------------------------------------------------------------------------- round


@pytest.mark.parametrize("gps", ["features", "outputs"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_classifiers_come_back_bit_for_bit(recipe, gps, tmp_path):
    X, y = table()
    labels = np.array(["low", "middle", "high"])[y]
    model = SVDKLClassifier(**SMALL, recipe=recipe, gps=gps, class_weight={"low": 2.0}).fit(X, labels)
    model.save(tmp_path / "model")
    before = torch.get_rng_state()
    again = SVDKLClassifier.load(tmp_path / "model")
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.get_params() == model.get_params()
    assert again.classes_.dtype == model.classes_.dtype
    assert again.feature_names_in_.tolist() == ["size", "sign", "other"]
    assert (again.n_iter_, again.loss_, again.history_) == (model.n_iter_, model.loss_, model.history_)
    again.partial_fit(X, labels)  # and can go on learning
    assert again.fitted_.num_rows_seen == model.fitted_.num_rows_seen + 150


@pytest.mark.parametrize("likelihood", ["gaussian", "student_t", "negative_binomial"])
def test_regressors_come_back_bit_for_bit(likelihood, tmp_path):
    X, y = table()
    model = SVDKLRegressor(**SMALL, likelihood=likelihood).fit(X, np.stack([y * 30, y + 5], 1))
    model.save(tmp_path / "model")
    again = SVDKLRegressor.load(str(tmp_path / "model"))
    assert again.history_ == model.history_
    for one, other in zip(model.predict(X, return_std=True), again.predict(X, return_std=True), strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(again.predict_quantiles(X[:9]), model.predict_quantiles(X[:9]))


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, -1, 7]),
        np.array([0.0, 1.0, 2.0]),
        np.array(["a", "b", "c"]),
        np.array(["ä", "b", "c"], dtype=object),
    ],
    ids=lambda labels: labels.dtype.str,
)
def test_labels_keep_their_type(labels, tmp_path):
    X, y = table()
    model = SVDKLClassifier(**SMALL, recipe="dnn").fit(X, labels[y])
    model.save(tmp_path / "model")
    again = SVDKLClassifier.load(tmp_path / "model")
    assert again.classes_.dtype == model.classes_.dtype
    assert again.classes_.tolist() == model.classes_.tolist()


def test_labels_that_are_times_are_not_saved(tmp_path):
    X, y = table()
    labels = np.array(["2024-01-01", "2024-01-02", "2024-01-03"], "datetime64[D]")
    model = SVDKLClassifier(**SMALL, recipe="dnn").fit(X, labels[y])
    refused(lambda: model.save(tmp_path / "model"), "numbers, booleans or text")
    assert list(tmp_path.iterdir()) == []


def test_parameters_may_be_numpys(tmp_path, monkeypatch):
    """Without checked types, which users do not have either."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    X, y = table()
    options = {
        "hidden": np.array([16]),
        "num_features": np.int64(6),
        "grid_size": np.int32(8),
        "max_iter": np.int64(3),
        "batch_size": np.int16(32),
        "dropout": np.float32(0.25),
        "alpha": np.float64(0.1),
        "normalise": np.bool_(True),
        "evidence": np.bool_(False),
        "random_state": np.int64(0),
    }
    model = SVDKLClassifier(**options).fit(X, y, checkpoint=tmp_path / "run" / "state")
    model.save(tmp_path / "model")
    again = SVDKLClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert (again.hidden, again.grid_size, again.dropout) == ((16,), 8, 0.25)
    again.partial_fit(X, y)
    again.set_params(hidden=[16], grid_size=np.int64(8)).save(tmp_path / "model")  # the same in other types


def test_a_model_of_another_machines_device_is_loaded(copied, saved):
    content = json.loads((copied / "model.json").read_text())["content"]
    content["parameters"]["device"] = "cuda:63"
    rewritten(copied, content=content, sha256_of_content=folder_module._hash_of(content))
    again = SVDKLClassifier.load(copied)
    assert again.device == "auto"
    assert np.array_equal(again.predict_proba(table()[0]), saved[0].predict_proba(table()[0]))


def test_a_network_of_ones_own_needs_its_code(tmp_path):
    X, y = make_blobs(120, random_state=0)
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh())
    model = SVDKLClassifier(**SMALL, net=net).fit(X, y)
    model.save(tmp_path / "model")
    refused(lambda: SVDKLClassifier.load(tmp_path / "model"), "net=", "code")
    again = SVDKLClassifier.load(tmp_path / "model", net=nn.Sequential(nn.Linear(2, 8), nn.Tanh()))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    other = nn.Sequential(nn.Linear(2, 9), nn.Tanh())
    refused(lambda: SVDKLClassifier.load(tmp_path / "model", net=other), "parameters")


def test_a_model_without_its_own_network_takes_none(saved):
    refused(lambda: SVDKLClassifier.load(saved[1], net=nn.Identity()), "without a network")


def test_objects_are_not_saved(tmp_path):
    X, y = table()
    with pytest.raises(NotFittedError):
        SVDKLClassifier().save(tmp_path / "model")
    model = SVDKLClassifier(**SMALL, recipe="dnn", kernel=nn.Identity()).fit(X, y)
    refused(lambda: model.save(tmp_path / "model"), "kernel")
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------------------------------------- what is not


def test_every_changed_byte_of_the_tensors_is_noticed(copied):
    file = copied / "model.safetensors"
    data = file.read_bytes()
    for place in [0, 1, 7, 8, 40, 200, *range(300, len(data), len(data) // 20), len(data) - 1]:
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        refused(lambda: SVDKLClassifier.load(copied), "model.safetensors", "damaged")
    file.write_bytes(data)
    SVDKLClassifier.load(copied)


def same_values(changed: str, text: str) -> bool:
    """The last of a number's seventeen digits may be another and the number the same."""
    try:
        return json.loads(changed) == json.loads(text)
    except ValueError:
        return False


def test_every_changed_value_of_the_description_is_noticed(copied):
    file = copied / "model.json"
    text = file.read_text()
    for place in range(0, len(text), len(text) // 60):
        if text[place].isspace():
            continue
        changed = text[:place] + ("7" if text[place] != "7" else "3") + text[place + 1 :]
        file.write_text(changed)
        if not same_values(changed, text):
            refused(lambda: SVDKLClassifier.load(copied))


@pytest.mark.parametrize("name", ["model.safetensors", "model.json"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_truncated_files_are_noticed(copied, name, share):
    file = copied / name
    data = file.read_bytes()
    file.write_bytes(data[: int(share * len(data))])
    refused(lambda: SVDKLClassifier.load(copied))


def rewritten(path, **changes):
    description = json.loads((path / "model.json").read_text())
    (path / "model.json").write_text(json.dumps({**description, **changes}))


def test_foreign_and_newer_folders_are_refused(copied, tmp_path):
    refused(lambda: SVDKLClassifier.load(tmp_path / "nowhere"), "nowhere")
    refused(lambda: SVDKLRegressor.load(copied), "SVDKLRegressor", "SVDKLClassifier")
    for version, way_out in ((folder_module.VERSION + 1, "update svdkl"), (1, "fit it again"), (0, "fit it again")):
        rewritten(copied, version=version)
        refused(lambda: SVDKLClassifier.load(copied), f"got version {version}", way_out)
    for version in (None, "1", 1.5, True):
        rewritten(copied, version=version)
        refused(lambda: SVDKLClassifier.load(copied))
    rewritten(copied, format="another program")
    refused(lambda: SVDKLClassifier.load(copied), "format")
    for text in ("", "[]", "null", "{}", "[" * 100_000):
        (copied / "model.json").write_text(text)
        refused(lambda: SVDKLClassifier.load(copied))
    (copied / "model.json").write_bytes(b"\xff\xfe\x00")
    refused(lambda: SVDKLClassifier.load(copied))


@pytest.mark.parametrize("missing", ["class", "parameters", "targets", "encoder", "history", "num_features"])
def test_a_description_without_a_part_is_refused(copied, missing):
    """Also where the hash is right, as in a file that someone has written on purpose."""
    content = json.loads((copied / "model.json").read_text())["content"]
    del content[missing]
    rewritten(copied, content=content, sha256_of_content=folder_module._hash_of(content))
    refused(lambda: SVDKLClassifier.load(copied))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("column_names", 0),
        ("column_names", ["size", "sign"]),
        ("column_names", ["size", "sign", []]),
        ("num_columns", {}),
        ("input_shape", ["x"]),
        ("num_features", 7),
        ("num_features", 1e30),
        ("num_rows_seen", "many"),
        ("split_seed", "x"),
        ("history", []),
        ("targets", {"classes": {"type": "<i8", "values": [0, [], 2]}}),
        ("targets", {"classes": {"type": "<i8", "values": ["a", "b", "c"]}}),
        ("network", {"hidden": [-1]}),
    ],
)
def test_fields_that_someone_has_made_up_are_refused(copied, field, value):
    content = {**json.loads((copied / "model.json").read_text())["content"], field: value}
    rewritten(copied, content=content, sha256_of_content=folder_module._hash_of(content))
    refused(lambda: SVDKLClassifier.load(copied))


@pytest.mark.parametrize(
    "targets", [{"mean": "x"}, {"mean": []}, {"scale": [0.0]}, {"scale": [1.0, 1.0]}, {"scale": [None]}], ids=str
)
def test_targets_that_someone_has_made_up_are_refused(targets, tmp_path):
    X, y = table()
    SVDKLRegressor(**SMALL, recipe="dnn").fit(X, y).save(tmp_path / "model")
    content = json.loads((tmp_path / "model" / "model.json").read_text())["content"]
    content["targets"] |= targets
    rewritten(tmp_path / "model", content=content, sha256_of_content=folder_module._hash_of(content))
    refused(lambda: SVDKLRegressor.load(tmp_path / "model"))


# ------------------------------------------------------------------------------------------------------------ writing


def test_saving_replaces_a_model_but_nothing_else(saved, tmp_path):
    model, _ = saved
    model.save(tmp_path / "deep" / "model")
    model.save(tmp_path / "deep" / "model")
    assert sorted(os.listdir(tmp_path / "deep")) == ["model"]
    assert sorted(os.listdir(tmp_path / "deep" / "model")) == ["model.json", "model.safetensors"]
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    refused(lambda: model.save(tmp_path / "thesis"), "thesis")
    refused(lambda: model.save(tmp_path / "thesis" / "chapter.txt"), "chapter.txt")
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002], ids=oct)
def test_what_is_written_has_the_mode_of_new_files_and_folders(saved, tmp_path, mask):
    """Others of a group read a model by the rules of its folder, though the library for tensors writes for one user."""
    before = os.umask(mask)
    try:
        saved[0].save(tmp_path / "folder" / "model")
        Checkpoint(tmp_path / "run" / "state").save(Snapshot("network", {"module": {"a": torch.ones(3)}}, {}))
        with written_whole(tmp_path / "page.html") as beside:
            beside.write_text("")
    finally:
        os.umask(before)
    for path in tmp_path.rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o777 if path.is_dir() else 0o666) & ~mask, path


@pytest.mark.parametrize("broken", ["save_file", "os.fsync", "exchange", "rename"])
def test_a_failed_save_leaves_what_was_there(saved, tmp_path, monkeypatch, broken):
    model, _ = saved
    X, _ = table()
    path = tmp_path / "model"
    model.save(path)
    expected = SVDKLClassifier.load(path).predict_proba(X)

    def full(*_, **__):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        if broken == "save_file":
            patch.setattr(folder_module, "save_file", full)
        elif broken == "os.fsync":
            patch.setattr(os, "fsync", full)
        elif broken == "exchange":
            patch.setattr(writing, "_exchange", full)
        else:  # the second renaming, when the old folder is out of the way already
            rename = type(path).rename
            patch.setattr(writing, "_exchange", lambda one, other: False)
            patch.setattr(type(path), "rename", lambda a, b: full() if a.name == "new" else rename(a, b))
        refused(lambda: model.save(path), "No space", error=OSError)
    assert os.listdir(tmp_path) == ["model"]
    assert np.array_equal(SVDKLClassifier.load(path).predict_proba(X), expected)
