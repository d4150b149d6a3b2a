"""Exported files: what they give, what stands beside them, and what is refused."""

import json
from importlib import util

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from refusals import refused
from sklearn.exceptions import NotFittedError

from svdkl import SVDKLClassifier, SVDKLRegressor
from svdkl.export import verify as export_check
from svdkl.export import write as exporting
from svdkl.export.graph import FrozenPredictor
from svdkl.export.write import export_model
from svdkl.tables.encoder import TabularEncoder

QUICK = {
    "hidden": (16,),
    "num_features": 4,
    "grid_size": 8,
    "max_iter": 2,
    "batch_size": 64,
    "evidence": False,
    "random_state": 0,
}
BATCH_SIZES = (1, 2, 7, 1000)


def make_table(rows=120):
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "area": random.gamma(9, 12, rows),
            "district": random.choice(["north", "south", "harbour"], rows),
            "built": random.integers(1900, 2024, rows).astype(float),
            "lift": random.random(rows) < 0.5,
        }
    )
    table.loc[random.random(rows) < 0.2, "built"] = np.nan
    rent = table["area"] * table["district"].map({"north": 2.0, "south": 3.0, "harbour": 5.0})
    return table, rent.to_numpy()


TABLE, RENT = make_table()
PRICE_CLASS = np.digitize(RENT, [200, 400])  # three classes
REAL = {
    "gaussian": RENT + 1e6,  # a spread that is small beside the mean
    "student_t": RENT,
    "poisson": np.round(RENT),
    "negative_binomial": np.round(RENT / 10),
}


@pytest.fixture(scope="module")
def classifier():
    return SVDKLClassifier(**QUICK).fit(TABLE, PRICE_CLASS)


@pytest.fixture(scope="module")
def network():
    """A model without GPs: quick to trace, where that is beside the point."""
    return SVDKLClassifier(**QUICK | {"recipe": "dnn"}).fit(TABLE, PRICE_CLASS)


@pytest.fixture(scope="module")
def regressor():
    return SVDKLRegressor(**QUICK).fit(TABLE, np.stack([RENT + 1e6, -RENT], 1))


def rows_for(folder, table, count):
    """Encoded rows, as a program that has nothing but the folder would make them."""
    encoder = TabularEncoder.from_json(json.loads((folder / "encoder.json").read_text()))
    matrix = encoder.transform(table).numpy()
    return np.resize(matrix, (count, matrix.shape[1]))


# ----------------------------------------------------------------------------------------------- the frozen predictor


@pytest.mark.parametrize(
    "options",
    [
        {"evidence": True},
        {"recipe": "dnn"},
        {"recipe": "dnn_plus"},
        {"recipe": "dnn_gp"},
        {"dims_per_gp": 2},
        {"gps": "outputs"},
        {"encoding": "both", "posterior": "mean_field"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:One function for each group")
def test_frozen_probabilities_are_the_models(options):
    check_frozen_probabilities(options, PRICE_CLASS)


@pytest.mark.parametrize("recipe", ["svdkl", "dnn"])
def test_frozen_probabilities_of_two_classes_are_the_models(recipe):
    check_frozen_probabilities({"recipe": recipe}, PRICE_CLASS > 0)


def check_frozen_probabilities(options, labels):
    model = SVDKLClassifier(**QUICK | options).fit(TABLE, labels)
    (probabilities,) = FrozenPredictor(model.fitted_)(model.encoder_.transform(TABLE))
    np.testing.assert_allclose(probabilities.numpy(), model.predict_proba(TABLE), rtol=0, atol=1e-6)


@pytest.mark.parametrize("likelihood", REAL)
def test_frozen_moments_are_the_models(likelihood):
    model = SVDKLRegressor(**QUICK, likelihood=likelihood).fit(TABLE, REAL[likelihood])
    actual = FrozenPredictor(model.fitted_)(model.encoder_.transform(TABLE))
    for got, expected in zip(actual, model.predict(TABLE, return_std=True), strict=True):
        assert got.shape == expected.shape == (len(TABLE),)
        np.testing.assert_allclose(got.numpy(), expected, rtol=2e-6)


def test_features_far_out_are_bounded_alike(classifier):
    model, frozen = classifier.model_.head.gps, FrozenPredictor(classifier.fitted_).head
    h = torch.tensor([0.0, 1e-30, -1e-3, 1.0, -30.0, 1e4, -1e20, 3e38])[:, None].expand(-1, 4)
    torch.testing.assert_close(frozen.bounding(h), model.bounding(h), rtol=0, atol=1e-6)


# ------------------------------------------------------------------------------------------------- files and folders


def test_a_torch_file_gives_the_models_probabilities_for_any_batch(classifier, tmp_path):
    export = export_model(classifier, tmp_path / "out", "torch", TABLE)
    assert {file.name for file in export.folder.iterdir()} == {"model.pt2", "encoder.json", "export.json"}
    module = torch.export.load(export.file).module()
    for size in BATCH_SIZES:
        (probabilities,) = module(torch.from_numpy(rows_for(export.folder, TABLE, size)))
        expected = np.resize(classifier.predict_proba(TABLE), (size, 3))
        np.testing.assert_allclose(probabilities.numpy(), expected, rtol=0, atol=1e-5)


def test_an_onnx_file_gives_the_models_moments_for_any_batch(regressor, tmp_path):
    export = export_model(regressor, tmp_path / "out", "onnx")
    session = onnxruntime.InferenceSession(str(export.file), providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["mean", "standard_deviation"]
    assert [entry.shape[0] for entry in (*session.get_inputs(), *session.get_outputs())] == ["batch"] * 3
    for size in BATCH_SIZES:
        outputs = session.run(None, {"rows": rows_for(export.folder, TABLE, size)})
        for got, expected in zip(outputs, regressor.predict(TABLE, return_std=True), strict=True):
            np.testing.assert_allclose(got, np.resize(expected, (size, 2)), rtol=0, atol=1e-5 * RENT.std())


def test_the_description_says_how_to_use_the_file(network, tmp_path):
    export = export_model(network, tmp_path / "classes", "torch")
    said = json.loads((export.folder / "export.json").read_text())
    assert said["file"] == "model.pt2"
    assert said["classes"]["values"] == [0, 1, 2]
    assert said["columns"] == list(TABLE.columns)
    assert said["input"] == {"name": "rows", "type": "float32", "shape": ["batch", len(network.encoder_.layout)]}
    assert said["outputs"] == [{"name": "probabilities", "type": "float32", "shape": ["batch", 3]}]
    assert said["versions"]["torch"] == torch.__version__
    assert said["checked"]["on"] == "1,000 random rows"
    assert 0 < said["checked"]["largest_difference"] == export.largest_difference < 1e-5


def test_a_network_of_ones_own_is_exported_without_an_encoder(tmp_path):
    images = np.random.default_rng(0).normal(size=(40, 1, 6, 6)).astype("float32")
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(32, 4)
    )
    labels = images.mean((1, 2, 3)) > 0
    model = SVDKLClassifier(net=net, grid_size=8, max_iter=2, evidence=False, random_state=0).fit(images, labels)
    export = export_model(model, tmp_path / "out", "torch", images)
    assert {file.name for file in export.folder.iterdir()} == {"model.pt2", "export.json"}
    assert json.loads((export.folder / "export.json").read_text())["input"]["shape"] == ["batch", 1, 6, 6]
    (probabilities,) = torch.export.load(export.file).module()(torch.from_numpy(images[:1]))
    np.testing.assert_allclose(probabilities.numpy(), model.predict_proba(images[:1]), rtol=0, atol=1e-5)


def test_what_a_fit_has_learned_is_exported_as_its_estimator_is(network, tmp_path):
    folders = [
        export_model(one, tmp_path / name, "torch").folder for one, name in ((network, "a"), (network.fitted_, "b"))
    ]
    assert len({(folder / "export.json").read_text() for folder in folders}) == 1


def test_an_earlier_export_is_replaced_and_another_folder_is_not(network, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.onnx").write_bytes(b"an earlier one")
    export_model(network, tmp_path / "out", "torch")
    assert not (tmp_path / "out" / "model.onnx").exists()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    refused(lambda: export_model(network, tmp_path / "out", "torch"), "something else")
    assert (tmp_path / "out" / "notes.txt").exists()


# ------------------------------------------------------------------------------------------------------------ refusals


def test_a_file_that_predicts_otherwise_is_refused_and_leaves_nothing(network, tmp_path, monkeypatch):
    other = SVDKLClassifier(**QUICK | {"recipe": "dnn", "random_state": 1}).fit(TABLE, PRICE_CLASS)
    monkeypatch.setattr(exporting, "FrozenPredictor", lambda fitted: FrozenPredictor(other.fitted_))
    refused(lambda: export_model(network, tmp_path / "out", "torch"), "differs by", "1e-05")
    assert list(tmp_path.iterdir()) == []


def test_an_estimator_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        export_model(SVDKLClassifier(), tmp_path / "out")


def test_a_network_that_cannot_be_traced_is_refused(tmp_path):
    class Branching(torch.nn.Module):
        def forward(self, x):
            return x if float(x.sum()) > 0 else -x

    X = np.random.default_rng(0).normal(size=(40, 4))
    model = SVDKLClassifier(net=Branching(), recipe="dnn", max_iter=1, random_state=0).fit(X, X[:, 0] > 0)
    refused(lambda: export_model(model, tmp_path / "out", "torch"), "torch.export can trace")
    assert list(tmp_path.iterdir()) == []


def test_other_formats_and_missing_packages_are_refused(classifier, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "find_spec", lambda name: None)
    refused(lambda: export_model(classifier, tmp_path / "out", "onnx"), "no onnx and no onnxscript", "svdkl[export]")
    assert list(tmp_path.iterdir()) == []


def test_without_onnxruntime_the_check_says_so(network, tmp_path, monkeypatch):
    def absent(name):
        return None if name == "onnxruntime" else util.find_spec(name)

    monkeypatch.setattr(export_check, "find_spec", absent)
    monkeypatch.setattr(export_check, "BATCH_SIZES", (1, 3))
    export = export_model(network, tmp_path / "out", "onnx", TABLE)
    assert "onnx.reference" in export.checked_with
    assert "not installed" in export.checked_with
