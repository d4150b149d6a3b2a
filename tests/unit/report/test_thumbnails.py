"""The report on images: pictures of rows, as a PNG reader sees them, and figures as files."""

import base64
import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib import image as matplotlib_image
from refusals import refused

from svdkl import SVDKLClassifier
from svdkl.report import write_report
from svdkl.report.facts.all_facts import gather
from svdkl.report.facts.doubt import most_doubtful
from svdkl.report.facts.gp_facts import GPFacts, drivers
from svdkl.report.sections.gps import gaussian_processes, nearest_rows
from svdkl.report.sections.row_details import notable_rows
from svdkl.report.thumbnails import MOST_PIXELS, numbered
from svdkl.report.words import share


def images(num_rows, channels, size, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (num_rows, channels, size, size)).astype(np.uint8)


def fitted(X, **options):
    y = np.array(["dark", "grey", "light"])[
        np.digitize(X.mean((1, 2, 3)), np.quantile(X.mean((1, 2, 3)), (1 / 3, 2 / 3)))
    ]
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(X[0].size, 6), torch.nn.ReLU())
    return SVDKLClassifier(net=net, max_iter=2, grid_size=8, random_state=0, **options).fit(X, y), y


def pictures(body):
    """The pixels of all pictures in a piece of HTML, by what stands beside them."""
    found = re.findall(r'<img class="row" alt="([^"]*)" src="data:image/png;base64,([^"]*)">', body)
    return [(name, matplotlib_image.imread(io.BytesIO(base64.b64decode(source)), "png")) for name, source in found]


@pytest.fixture(scope="module")
def facts():
    X = images(150, 1, 6)
    model, y = fitted(X / np.float32(255))
    return gather(model.fitted_, X / np.float32(255), y, {})


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_are_the_rows(channels):
    X = images(20, channels, 6)
    model, y = fitted(X)
    facts = gather(model.fitted_, X, y, {})
    ((name, shown),) = pictures(numbered(facts, 7, ": <b>"))
    assert name == "Row 7"
    assert (255 * shown).round() == pytest.approx(X[7, 0] if channels == 1 else X[7].transpose(1, 2, 0))
    assert numbered(facts, 7, ": <b>").endswith("> 7: &lt;b&gt;")


def test_numbers_are_shown_between_the_smallest_and_the_largest(facts):
    ((_, shown),) = pictures(numbered(facts, 3))
    X = facts.shown
    assert shown == pytest.approx((X[3, 0] - X.min()) / (X.max() - X.min()), abs=1 / 255)


def test_constant_and_large_images_and_those_that_cannot_be_shown():
    for X, size in ((np.zeros((20, 1, 4, 4), np.float32), 4), (images(20, 1, 150), 50)):
        model, y = fitted(images(20, *X.shape[1:3]))
        ((_, shown),) = pictures(numbered(gather(model.fitted_, X, y, {}), 0))
        assert shown.shape == (size, size)
        assert size <= MOST_PIXELS
    X = images(20, 2, 4)
    model, y = fitted(X)
    assert numbered(gather(model.fitted_, X, y, {}), 4) == "4"


def test_doubtful_and_nearest_rows_have_pictures(facts):
    doubtful = [f"Row {row}" for row in most_doubtful(facts.predictions).tolist()]
    assert [name for name, _ in pictures(notable_rows(facts).body)][: len(doubtful)] == doubtful
    body = nearest_rows(facts)
    assert [name for name, _ in pictures(body)][::6] == doubtful[:5]
    assert body.count("After the held-out evidence") == 1


def test_the_gps_of_a_class_by_hand():
    moves = np.array([[1.0, -6.0, 0.0, 3.0], [0.0, 0.0, 0.0, 0.0]])
    none = np.zeros(4)
    found = GPFacts(none, np.arange(4), moves, moves, none, none[:, None], [])
    assert drivers(found, 0, 2) == [(1, -6.0, 0.6), (3, 3.0, 0.3)]
    assert [one.gp for one in drivers(found, 0, 9)] == [1, 3, 0]
    assert drivers(found, 1, 3) == []


def test_the_table_of_gps_of_each_class(facts):
    body = gaussian_processes(facts).body
    rows = re.findall(r"<tr><td>(dark|grey|light)</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>", body)
    assert [row[0] for row in rows] == ["dark", "grey", "light"]
    moves = facts.gps.moves
    for place, (_, *cells) in enumerate(rows):
        sizes = np.abs(moves[place])
        for gp, cell in zip(np.argsort(-sizes), cells):
            sign = "+" if moves[place, gp] > 0 else "−"
            assert cell == f"{gp} ({sign}, {share(sizes[gp] / sizes.sum())})"


def test_figures_are_files_too(facts, tmp_path):
    X, y = facts.shown, facts.fitted.classes.labels[facts.predictions.labels]
    folder = tmp_path / "new" / "figures"
    page = write_report(facts.fitted, X, y, tmp_path / "report.html", figures=folder).read_text()
    files = {path.name: path.read_text() for path in folder.iterdir()}
    assert len(files) == page.count("<svg ")
    assert {"mixing.svg", "confusion.svg", "functions-1.svg", "functions-2.svg"} <= set(files)
    for svg in files.values():
        assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
        assert "--ink:" in svg
    refused(
        lambda: write_report(facts.fitted, X, y, tmp_path / "no.html", figures=tmp_path / "report.html"),
        "report.html",
        "folder",
    )
    assert not (tmp_path / "no.html").exists()
