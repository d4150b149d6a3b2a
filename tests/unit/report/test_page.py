"""Pages of the report, for models and rows of every kind."""

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from refusals import refused
from reported import LABELS, TINY, mixed_table

from svdkl import SVDKLClassifier, SVDKLRegressor
from svdkl.report import write_report
from svdkl.report.facts import predictions as predictions_module
from svdkl.report.facts.all_facts import gather
from svdkl.report.facts.gp_facts import strongest_output
from svdkl.report.words import share

pytestmark = pytest.mark.usefixtures("small_reports")
ALWAYS = {"learning", "rejection", "doubt"}
OF_CLASSES = ALWAYS | {"reliability", "confusion"}
OF_TARGETS = ALWAYS | {"coverage", "residuals"}
OF_GPS = {"mixing", "functions", "kernels", "hyperparameters", "grid"}


class Page(HTMLParser):
    """What stands in a page; complains about tags that do not match."""

    def __init__(self, path):
        super().__init__()
        self.text, self.ids, self.figures, self.links, self.open = [], [], [], [], []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self.open
        self.words = " ".join("".join(self.text).split())

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.handle_startendtag(tag, attributes)
        if tag not in ("meta", "br", "img"):
            self.open.append(tag)
        if tag == "figure":
            self.figures.append(given["id"].removeprefix("figure-"))

    def handle_startendtag(self, tag, attributes):
        given = dict(attributes)
        assert tag not in ("script", "link", "iframe", "object", "base")
        assert tag != "img" or given["alt"]
        assert not any(name.startswith("on") for name in given)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[name] for name in ("href", "src", "xlink:href") if name in given]
        if tag == "svg":
            assert given["role"] == "img"
            assert given["aria-label"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


def read_page(path, figures):
    page = Page(path)
    assert set(page.figures) == figures
    assert len(page.figures) == len(set(page.figures))
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        assert link.startswith("data:image/png;base64,") or link.removeprefix("#") in page.ids
    source = path.read_text(encoding="utf-8")
    assert not re.search(r"https?:|@import|url\((?!#)", source)
    assert len(source) < 3_000_000
    assert not re.search(r"\bnan\b|\binf\b|Traceback", page.words)
    for section in ("Intended use", "What the numbers mean", "Limits"):
        assert section in page.words
    return page


def read_report(estimator, X, y, folder, figures, run=None):
    return read_page(write_report(estimator, X, y, folder / "report.html", run), figures)


# ------------------------------------------------------------------------------------------------------------- pages


def test_page_of_a_table_with_odd_names_and_of_more_rows_than_figures_show(mixed, tmp_path, monkeypatch):
    monkeypatch.setattr(predictions_module, "FIGURE_ROWS", 40)
    X, y = mixed_table(60, 1)
    run = {"data": "a <b>.csv", "seconds": 3.5, "versions": {"torch": "<2>"}, "when": pd.Timestamp("2024-05-06")}
    page = read_report(mixed, X, y, tmp_path, OF_CLASSES | OF_GPS, run)
    for name in ("group & <kind>", LABELS[0], LABELS[1], "city <b>&amp;</b>", "a <b>.csv", "torch: <2>", "2024-05-06"):
        assert name in page.words
    assert LABELS[2][:60] in page.words  # long names are shortened, not lost
    assert "not used: " in page.words
    assert "There are only 60 test rows" in page.words
    assert "show 40 of the 60 test rows, drawn at random" in page.words
    accuracy = share(float((mixed.predict(X) == y.to_numpy()).mean()))  # of all rows
    assert f"Of 60 test rows, {' '.join(accuracy.split())} get the right class" in page.words


def test_page_of_two_targets(two_targets, tmp_path):
    X = np.random.default_rng(1).normal(size=(50, 3))
    Y = pd.DataFrame({"left $": X[:, 0], "<right>": 100 * X[:, 1]})
    page = read_report(two_targets, X, Y, tmp_path, OF_TARGETS | OF_GPS)
    assert "left $: Errors are typically" in page.words
    assert "<right>: 95 % intervals hold" in page.words


@pytest.mark.parametrize("kind", [SVDKLClassifier, SVDKLRegressor])
def test_plain_networks_have_no_gps_and_say_so(kind, tmp_path):
    X = np.random.default_rng(0).normal(size=(120, 2))
    classes = kind is SVDKLClassifier
    recipe, y = ("dnn", X[:, 0] > 0) if classes else ("dnn_plus", X[:, 0])
    page = read_report(kind(recipe=recipe, **TINY).fit(X, y), X, y, tmp_path, OF_CLASSES if classes else OF_TARGETS)
    assert f"The recipe '{recipe}' has no Gaussian processes" in page.words
    assert "cannot tell rows that are unlike the training rows" in page.words


def test_one_row_of_one_class_and_of_real_targets(mixed, two_targets, tmp_path):
    X, y = mixed_table(1, 3)
    within = OF_GPS - {"functions"}  # no GP moves anything from row to row
    page = read_report(mixed, X, y, tmp_path, OF_CLASSES | within)
    assert "No test row has the class" in page.words
    assert "Nearest rows" not in page.words
    one = np.zeros((1, 3))
    read_report(two_targets, one, one[:, :2], tmp_path, OF_TARGETS | within)


def test_thirty_classes_of_a_polars_table(tmp_path):
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"a": random.normal(size=300), "b": ["x", "y", "z"] * 100})
    y = pl.Series("kind", random.integers(0, 30, 300))
    page = read_report(SVDKLClassifier(**TINY).fit(frame, y), frame, y, tmp_path, OF_CLASSES | OF_GPS)
    assert "All 30 classes" in page.words
    assert "do not use them" in page.words  # labels are noise


def test_images_and_a_network_of_the_users_own(tmp_path):
    images = np.random.default_rng(0).normal(size=(200, 1, 4, 4)).astype("float32")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 4), torch.nn.ReLU())
    model = SVDKLClassifier(net=net, max_iter=2, grid_size=8, dims_per_gp=2, kernel="spectral_mixture", random_state=0)
    y = (images.mean((1, 2, 3)) > 0).astype(int)
    page = read_report(model.fit(images, y), images, y, tmp_path, OF_CLASSES | OF_GPS)
    assert "its rows have shape 1 × 4 × 4" in page.words
    assert "Nearest rows under the deep kernel" in page.words
    for part in ("Covariance of test rows under the deep kernel", "Nearest rows under the deep kernel"):
        after = page.words[page.words.index(part) :]
        assert "After the held-out evidence this is the kernel of what that stage may add" in after[:1500], part
    assert "The kernel has no lengthscale" in page.words


# ----------------------------------------------------------------------------------------------------------- writing


def test_a_page_is_written_whole_or_not_at_all(mixed, tmp_path, monkeypatch):
    path = tmp_path / "new" / "report.html"
    X, y = mixed_table(5, 1)
    monkeypatch.setattr("svdkl.report.page.render_report", lambda facts: "first")
    assert write_report(mixed, X, y, path) == path
    monkeypatch.setattr("svdkl.report.page.render_report", lambda facts: "\ud800")
    with pytest.raises(UnicodeEncodeError):
        write_report(mixed, X, y, path)
    assert path.read_text() == "first"
    assert list(path.parent.iterdir()) == [path]


def test_what_a_fit_has_learned_is_enough_for_the_page(mixed, tmp_path):
    X, y = mixed_table(30, 1)
    pages = [write_report(one, X, y, tmp_path / name) for one, name in ((mixed, "a"), (mixed.fitted_, "b"))]
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_what_cannot_be_reported_is_refused(mixed, two_targets, tmp_path):
    X, y = mixed_table(5, 1)
    path = tmp_path / "report.html"
    refused(lambda: write_report(mixed, X, ["other"] * 5, path), "labels out of the classes", "'other'")
    refused(lambda: write_report(mixed, X, y[:4], path), "5 rows and 4 targets")
    refused(lambda: write_report(mixed, X, np.zeros((5, 2)), path), "one label a row", "(5, 2)")
    refused(lambda: write_report(two_targets, np.zeros((5, 3)), np.zeros(5), path), "2 target(s) a row")
    refused(lambda: write_report(two_targets, np.zeros((5, 3)), np.full((5, 2), np.nan), path), "finite targets")
    new = tmp_path / "new" / "report.html"
    refused(lambda: write_report(SVDKLClassifier(), X, y, new), "a fitted SVDKLClassifier")
    assert not new.parent.exists()
    refused(lambda: write_report(object(), X, y, path), "got object")
    refused(lambda: write_report(mixed, X, y, tmp_path), "got the folder")
    refused(lambda: write_report(mixed, X, y, path, classes=["other"]), "classes", repr(LABELS[0]), "'other'")
    (tmp_path / "file").write_text("")
    refused(lambda: write_report(mixed, X, y, tmp_path / "file" / "report.html"), "to write the report", error=OSError)


# --------------------------------------------------------------------------------------------------------------- GPs


def test_gps_are_named_by_what_they_drive(tmp_path):
    random = np.random.default_rng(0)
    X, names = random.normal(size=(200, 3)), np.array(["low", "mid", "top"])
    y = names[np.digitize(X[:, 0], (-0.4, 0.4))]
    model = SVDKLClassifier(gps="outputs", **TINY).fit(X, y)
    with torch.no_grad():  # each GP drives an output of its own, the first the most
        model.model_.head.mixing.weight.copy_(torch.tensor([[0.0, 0.0, 9.0], [3.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    facts = gather(model.fitted_, X, y, {})
    assert [strongest_output(facts.gps, gp)[0] for gp in range(3)] == [1, 2, 0]
    top = read_report(model, X, y, tmp_path, OF_CLASSES | OF_GPS)
    driven = names[[1, 2, 0]]
    gp = int(facts.gps.order[0])
    assert f"GP {gp} → {driven[gp]}" in top.words
    assert "held-out evidence this is the kernel" not in top.words
    assert "by falling influence" not in top.words[top.words.index("Mixing matrix") :][:400]
    chosen = read_page(write_report(model, X, y, tmp_path / "two.html", classes=["top", "low"]), set(top.figures))
    weight = model.model_.head.mixing.weight.detach()
    with torch.no_grad():
        felt = (weight - weight.mean(0)) * model.model_.head.gps.marginals(facts.features).mean.std(0)
    for place, name in ((2, "top"), (0, "low")):
        assert f"GP {int(felt[place].abs().argmax())} → {name}" in chosen.words
