"""The report: its numbers against independent computations, and pages of models and rows of every kind."""

import copy
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from dense import interpolation_matrix, line_correlation
from refusals import refused
from scipy import stats
from sklearn import metrics as sklearn_metrics

from svdkl import SVDKLClassifier, SVDKLRegressor
from svdkl.report import write_report
from svdkl.report.facts import predictions as predictions_module
from svdkl.report.facts import scores as scores_module
from svdkl.report.facts.all_facts import gather
from svdkl.report.facts.doubt import binned, cells, doubts, most_doubtful, rejection, surely_wrong
from svdkl.report.facts.findings import class_findings, limits
from svdkl.report.facts.gp_facts import (
    describe_processes,
    features_of,
    kernels,
    learned_function,
    neighbours,
    rows_by_class,
    strongest_output,
)
from svdkl.report.facts.model_facts import describe_model
from svdkl.report.facts.predictions import ClassPredictions, Doubt, figure_rows
from svdkl.report.facts.scores import (
    LEVELS,
    calibration_error_by_chance,
    chance_band,
    class_scores,
    confusion_matrix,
    coverage,
    frequent_confusions,
    of_class,
)
from svdkl.report.sections import gps as processes_section
from svdkl.report.sections.gps import nearest_rows
from svdkl.report.sections.quality import calibration
from svdkl.report.words import label, listed, number, share

TINY = {"hidden": (16,), "num_features": 4, "grid_size": 8, "max_iter": 2, "evidence": False, "random_state": 0}
LABELS = ["<script>alert('x')</script>", '$\\frac{a}{b}$ & "co"', "長" * 200]
CITY = "city <b>&amp;</b> \x00"
ALWAYS = {"learning", "rejection", "doubt"}
OF_CLASSES = ALWAYS | {"reliability", "confusion"}
OF_TARGETS = ALWAYS | {"coverage", "residuals"}
OF_PROCESSES = {"mixing", "functions", "kernels", "hyperparameters", "grid"}


@pytest.fixture(scope="module", autouse=True)
def _quick():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores_module, "RESAMPLES", 20)
        patch.setattr(processes_section, "MOST_FUNCTIONS", 1)
        patch.setattr(processes_section, "MOST_KERNELS", 1)
        yield


def mixed_table(num_rows, seed):
    random = np.random.default_rng(seed)
    age = random.normal(50, 15, num_rows)
    age[random.random(num_rows) < 0.1] = np.nan
    city = random.choice(["Zürich", "<i>", "a$b$", '"'], num_rows).astype(object)
    city[random.random(num_rows) < 0.1] = None
    table = pd.DataFrame({"age": age, CITY: city, "one": 1, "when": pd.Timestamp("2024-01-01"), "_" * 300: age > 50})
    table["when"] += pd.to_timedelta(random.integers(0, 400, num_rows), unit="D")
    y = np.array(LABELS, dtype=object)[
        np.digitize(np.nan_to_num(age, nan=50) + random.normal(0, 5, num_rows), (40, 60))
    ]
    return table, pd.Series(y, name="group & <kind>")


@pytest.fixture(scope="module")
def mixed():
    return SVDKLClassifier(**TINY).fit(*mixed_table(300, 0))


@pytest.fixture(scope="module")
def two_targets():
    X = np.random.default_rng(0).normal(size=(300, 3))
    return SVDKLRegressor(**TINY).fit(X, np.stack([X[:, 0], 100 * X[:, 1]], 1))


@pytest.fixture(scope="module")
def mixed_facts(mixed):
    return gather(mixed, *mixed_table(200, 1), {})


def made_up(probabilities, labels, epistemic=None):
    p = np.asarray(probabilities, dtype=float)
    entropy = stats.entropy(p, axis=1)
    names = tuple(f"c{place}" for place in range(p.shape[1]))
    return ClassPredictions("y", names, np.asarray(labels), p, Doubt(np.arange(len(p)), entropy, epistemic, None))


def random_predictions(num_rows, num_classes=3, seed=0, sharpness=1.0):
    """Probabilities, and labels that are drawn from them before they are made sharper."""
    random = np.random.default_rng(seed)
    p = random.dirichlet(np.ones(num_classes), num_rows)
    labels = np.array([random.choice(num_classes, p=row) for row in p])
    sharper = p**sharpness
    return made_up(sharper / sharper.sum(1, keepdims=True), labels, random.random(num_rows))


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
    page = read_report(mixed, X, y, tmp_path, OF_CLASSES | OF_PROCESSES, run)
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
    page = read_report(two_targets, X, Y, tmp_path, OF_TARGETS | OF_PROCESSES)
    assert "left $: Errors are typically" in page.words
    assert "<right>: 95 % intervals hold" in page.words


@pytest.mark.parametrize("kind", [SVDKLClassifier, SVDKLRegressor])
def test_plain_networks_have_no_processes_and_say_so(kind, tmp_path):
    X = np.random.default_rng(0).normal(size=(120, 2))
    classes = kind is SVDKLClassifier
    recipe, y = ("dnn", X[:, 0] > 0) if classes else ("dnn_plus", X[:, 0])
    page = read_report(kind(recipe=recipe, **TINY).fit(X, y), X, y, tmp_path, OF_CLASSES if classes else OF_TARGETS)
    assert f"The recipe '{recipe}' has no Gaussian processes" in page.words
    assert "cannot tell rows that are unlike the training rows" in page.words


def test_evidence_is_told_of_where_there_was_some():
    options = {**TINY, "evidence": True}
    told = describe_model(SVDKLClassifier(**options).fit(*mixed_table(300, 0)))
    assert told["Held-out evidence"] == "yes"
    assert told["Training rows"].endswith("held out")
    few = describe_model(SVDKLClassifier(**options).fit(*mixed_table(60, 0)))  # too few to hold some out
    assert (few["Held-out evidence"], few["Training rows"]) == ("no", "60")


def test_one_row_of_one_class_and_of_real_targets(mixed, two_targets, tmp_path):
    X, y = mixed_table(1, 3)
    within = OF_PROCESSES - {"functions"}  # no process moves anything from row to row
    page = read_report(mixed, X, y, tmp_path, OF_CLASSES | within)
    assert "No test row has the class" in page.words
    assert "Nearest rows" not in page.words
    one = np.zeros((1, 3))
    read_report(two_targets, one, one[:, :2], tmp_path, OF_TARGETS | within)


def test_thirty_classes_of_a_polars_table(tmp_path):
    random = np.random.default_rng(0)
    frame = pl.DataFrame({"a": random.normal(size=300), "b": ["x", "y", "z"] * 100})
    y = pl.Series("kind", random.integers(0, 30, 300))
    page = read_report(SVDKLClassifier(**TINY).fit(frame, y), frame, y, tmp_path, OF_CLASSES | OF_PROCESSES)
    assert "All 30 classes" in page.words
    assert "do not use them" in page.words  # labels are noise


def test_images_and_a_network_of_the_users_own(tmp_path):
    images = np.random.default_rng(0).normal(size=(200, 1, 4, 4)).astype("float32")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 4), torch.nn.ReLU())
    model = SVDKLClassifier(net=net, max_iter=2, grid_size=8, dims_per_gp=2, kernel="spectral_mixture", random_state=0)
    y = (images.mean((1, 2, 3)) > 0).astype(int)
    page = read_report(model.fit(images, y), images, y, tmp_path, OF_CLASSES | OF_PROCESSES)
    assert "its rows have shape 1 × 4 × 4" in page.words
    assert "Nearest rows under the deep kernel" in page.words
    for part in ("Covariance of test rows under the deep kernel", "Nearest rows under the deep kernel"):
        after = page.words[page.words.index(part) :]
        assert "After the held-out evidence this is the kernel of what that stage may add" in after[:1500], part
    assert "The kernel has no lengthscale" in page.words


def test_counts():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 2)), random.poisson(3, 200)
    model = SVDKLRegressor(likelihood="poisson", **TINY).fit(X, y)
    facts = gather(model, X, y, {})
    assert "Intervals of counts end at whole numbers" in calibration(facts).body
    low, high = model.predict_quantiles(X, (0.1, 0.9)).T
    exact = ((low <= y) & (y <= high)).mean()
    assert abs(coverage(facts.predictions, 0).observed[LEVELS == 0.8] - exact) < 0.05


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


def test_what_cannot_be_reported_is_refused(mixed, two_targets, tmp_path):
    X, y = mixed_table(5, 1)
    path = tmp_path / "report.html"
    refused(lambda: write_report(mixed, X, ["other"] * 5, path), "labels out of the classes", "'other'")
    refused(lambda: write_report(mixed, X, y[:4], path), "5 rows and 4 targets")
    refused(lambda: write_report(mixed, X, np.zeros((5, 2)), path), "one label a row", "(5, 2)")
    refused(lambda: write_report(two_targets, np.zeros((5, 3)), np.zeros(5), path), "2 target(s) a row")
    refused(lambda: write_report(two_targets, np.zeros((5, 3)), np.full((5, 2), np.nan), path), "finite targets")
    refused(lambda: write_report(SVDKLClassifier(), X, y, path), "a fitted SVDKLClassifier")
    refused(lambda: write_report(object(), X, y, path), "got object")
    refused(lambda: write_report(mixed, X, y, tmp_path), "got the folder")
    refused(lambda: write_report(mixed, X, y, path, classes=["other"]), "classes", repr(LABELS[0]), "'other'")
    (tmp_path / "file").write_text("")
    refused(lambda: write_report(mixed, X, y, tmp_path / "file" / "report.html"), "to write the report", error=OSError)


# ------------------------------------------------------------------------------------------------------------ scores


def test_scores_have_intervals_of_the_right_width_and_an_honest_baseline(monkeypatch):
    monkeypatch.setattr(scores_module, "RESAMPLES", 100)
    predictions = random_predictions(2000)
    scores = {score.metric.name: score for score in class_scores(predictions)}
    accuracy = scores["accuracy"]
    assert accuracy.value == np.mean(predictions.probabilities.argmax(1) == predictions.labels)
    expected = 2 * 1.96 * math.sqrt(accuracy.value * (1 - accuracy.value) / 2000)
    assert 0.7 < (accuracy.high - accuracy.low) / expected < 1.4
    shares = np.bincount(predictions.labels) / 2000
    assert scores["negative_log_probability"].baseline == pytest.approx(stats.entropy(shares))
    assert scores["auroc"].baseline == pytest.approx(0.5)
    for score in scores.values():
        assert 0 <= score.low <= score.value <= score.high
    monkeypatch.setattr(scores_module, "RESAMPLED_ROWS", 500)  # the spread of fewer rows, scaled to all
    fewer = class_scores(predictions)[0]
    assert 0.7 < (fewer.high - fewer.low) / expected < 1.4


def test_scores_of_targets(two_targets):
    X = np.random.default_rng(1).normal(size=(80, 3))
    Y = np.stack([X[:, 0], 100 * X[:, 1]], 1)
    facts = gather(two_targets, X, Y, {})
    mean, std = two_targets.predict(X, return_std=True)
    for place, by_name in enumerate(facts.scores):
        assert by_name["rmse"].value == pytest.approx(np.sqrt(np.mean((Y[:, place] - mean[:, place]) ** 2)))
        assert by_name["rmse"].baseline == pytest.approx(Y[:, place].std())
        inside = np.abs(Y[:, place] - mean[:, place]) <= 1.959964 * std[:, place]
        assert by_name["interval_coverage"].value == inside.mean()
    low, high = np.moveaxis(two_targets.predict_quantiles(X, (0.25, 0.75)), -1, 0)
    within = ((low <= Y) & (high >= Y)).mean(0)
    for place in (0, 1):
        assert coverage(facts.predictions, place).observed[LEVELS == 0.5] == within[place]


# ------------------------------------------------------------------------------------------------------- calibration


def test_reliability_of_a_class():
    predictions = random_predictions(500)
    found = of_class(predictions, 1)
    p, hit = predictions.probabilities[:, 1], predictions.labels == 1
    chosen = (p >= 0.3) & (p < 0.4)
    assert found.counts[3] == chosen.sum()
    assert found.predicted[3] == pytest.approx(p[chosen].mean())
    assert found.observed[3] == pytest.approx(hit[chosen].mean())


def test_chance_band_holds_95_percent():
    low, high = chance_band(np.array([0.3]), np.array([200.0]))
    drawn = np.random.default_rng(0).binomial(200, 0.3, 20_000) / 200
    assert 0.94 < np.mean((drawn >= low) & (drawn <= high)) < 0.97


def test_findings_tell_calibrated_probabilities_from_others():
    for sharpness, words in ((1.0, "No sign of miscalibration"), (3.0, "overconfident"), (0.4, "underconfident")):
        predictions = random_predictions(1500, sharpness=sharpness)
        scores = {score.metric.name: score for score in class_scores(predictions)}
        assert words in " ".join(class_findings(predictions, scores))
    assert (
        0 < calibration_error_by_chance(random_predictions(1500)) < calibration_error_by_chance(random_predictions(100))
    )


# ------------------------------------------------------------------------------------------------------------- doubt


def test_rejection_and_bins_by_hand():
    predictions = random_predictions(200)
    wrong = ~predictions.correct
    curves = {curve.name: curve for curve in rejection(predictions)}
    assert set(curves) == {"total uncertainty", "epistemic uncertainty", "best possible order"}
    for name, doubt in (("total", predictions.doubt.total), ("epistemic", predictions.doubt.epistemic)):
        curve = curves[f"{name} uncertainty"]
        assert curve.x[0] == 0
        assert curve.y[0] == pytest.approx(1 - wrong.mean())
        kept = np.argsort(doubt)[: round(200 * (1 - curve.x[-1]))]
        assert len(kept) == 20
        assert curve.y[-1] == pytest.approx(1 - wrong[kept].mean())
    assert (np.diff(curves["best possible order"].y) >= 0).all()
    bins = binned(predictions, predictions.doubt.total)
    last = np.argsort(predictions.doubt.total)[-20:]
    assert bins.error[-1] == pytest.approx(wrong[last].mean())
    assert bins.expected[-1] == pytest.approx(1 - predictions.probabilities[last].max(1).mean())
    interval = stats.binomtest(int(wrong[last].sum()), 20).proportion_ci(method="wilson")
    assert (bins.low[-1], bins.high[-1]) == pytest.approx((interval.low, interval.high), abs=1e-3)


def test_doubts_of_one_order_are_one():
    p = np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]])
    assert set(doubts(made_up(p, [0, 0, 0], stats.entropy(p, axis=1) / 7))) == {"total"}
    assert set(doubts(made_up(p, [0, 0, 0], np.array([0.3, 0.2, 0.1])))) == {"total", "epistemic"}


def test_confusions():
    predictions = random_predictions(300)
    matrix = confusion_matrix(predictions)
    assert np.array_equal(matrix, sklearn_metrics.confusion_matrix(predictions.labels, predictions.chosen))
    first = frequent_confusions(matrix)[0]
    assert first.rows == (matrix - np.diag(np.diag(matrix))).max() == matrix[first.truth, first.prediction]
    assert frequent_confusions(np.diag([3, 4])) == []


def test_rows_to_look_at(mixed_facts):
    predictions = made_up([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.4, 0.6]], [1, 0, 0, 1])
    assert most_doubtful(predictions).tolist() == [1, 3, 2, 0]
    assert surely_wrong(predictions).tolist() == [0, 2]
    X = mixed_facts.X
    found = cells(X, np.array([7, 3]))
    assert found.names[0] == "age"
    assert [row[1] for row in found.rows] == [X[CITY].iloc[7] or "–", X[CITY].iloc[3] or "–"]
    assert cells(np.zeros((3, 2, 2)), np.array([0])) is None


def test_figure_rows_are_all_or_a_fixed_sample():
    assert figure_rows(7).tolist() == list(range(7))
    chosen = figure_rows(50_000)
    assert len(chosen) == 20_000 == len(set(chosen.tolist()))
    assert (np.diff(chosen) > 0).all()
    assert np.array_equal(chosen, figure_rows(50_000))


# ------------------------------------------------------------------------------------------------- columns and limits


def test_columns_and_what_is_strange_in_them(mixed):
    X, y = mixed_table(100, 1)
    X.loc[:24, CITY] = "never seen"
    X["_" * 300] = X["_" * 300].astype(object).where(X.index > 9, None)
    facts = gather(mixed, X, y, {})
    by_name = {column.name: column for column in facts.columns}
    assert by_name["age"].missing == X["age"].isna().mean()
    assert by_name[CITY].unknown == 0.25
    assert by_name["one"].kind == "ignored"
    told = " ".join(limits(facts.predictions, facts.columns))
    assert "complete in training: ____" in told
    assert f"rare or absent in training: {label(CITY)} ({share(0.25)})" in told


def test_limits_of_classes():
    told = " ".join(limits(made_up(np.tile([0.8, 0.1, 0.1], (250, 1)), [0] * 248 + [1] * 2), []))
    assert "No test row has the class c2" in told
    assert "Few test rows have the class c1 (2)" in told
    assert "The class c1 is never predicted" in told
    assert f"may still be {share(0.012)}" in " ".join(limits(made_up(np.tile([0.8, 0.2], (250, 1)), [0] * 250), []))


def test_limits_of_distance():
    predictions = made_up(np.tile([0.8, 0.2], (250, 1)), [0] * 250)
    scores, usual = np.linspace(0.004, 1, 250), np.linspace(0, 0.5, 101)
    doubt = replace(predictions.doubt, epistemic=scores, ood_score=scores, usual_scores=usual)
    told = " ".join(limits(replace(predictions, doubt=doubt), []))
    assert f"{share(127 / 250)} of the test rows have an out-of-distribution score above 0.495; of" in told
    doubt = replace(doubt, usual_scores=np.empty(0))
    assert "remembers no training rows" in " ".join(limits(replace(predictions, doubt=doubt), []))


# --------------------------------------------------------------------------------------------------------- processes


def test_processes_against_the_head(mixed, mixed_facts):
    head, h = mixed.model_.head, mixed_facts.features
    assert torch.allclose(h, mixed.model_.net(mixed.encoder_.transform(mixed_facts.X)), atol=1e-5)
    found = describe_processes(mixed.model_, h)
    weight = head.mixing.weight.detach().double().numpy()
    assert np.array_equal(found.mixing, weight)
    means = head.marginals(h).mean.detach().double().numpy()
    influence = [means[:, j].std() * np.linalg.norm(weight[:, j] - weight[:, j].mean()) for j in range(4)]
    assert found.influence == pytest.approx(np.array(influence), rel=1e-4)
    assert found.order[0] == np.argmax(influence)
    kernel = head.members()[0].gps.kernel
    assert found.deviations == pytest.approx(np.exp(kernel.log_variance.detach().numpy() / 2), rel=1e-5)
    assert found.lengthscales[:, 0] == pytest.approx(kernel.axes[0].lengthscale.detach().numpy(), rel=1e-5)
    positions = (head.bounding(h)[:, 2].detach().numpy() + 1) / 2 * (8 - 3) + 1  # one spacing free at either end
    shares = [np.mean(np.floor(positions) == cell) for cell in range(7)]
    assert found.grid_use[2] == pytest.approx(shares)


def test_learned_function_against_the_head(mixed, mixed_facts):
    head, h = mixed.model_.head, mixed_facts.features
    line = learned_function(mixed.model_, h, 1)
    point = torch.zeros(1, 4)
    point[0, 1] = float(line.feature[60])
    with torch.no_grad():
        marginals = head.marginals(point)
    assert line.mean[60] == pytest.approx(float(marginals.mean[0, 1]), abs=1e-4)
    assert line.std[60] == pytest.approx(float(marginals.variance[0, 1]) ** 0.5, rel=1e-3)


def test_kernels_against_the_head(mixed, mixed_facts):
    labels = mixed_facts.predictions.labels
    rows = rows_by_class(labels, 3, 4)
    assert (np.diff(labels[rows]) >= 0).all()
    assert len(rows) == 150 == len(set(rows.tolist()))
    h = mixed_facts.features[rows]
    found = kernels(mixed.model_, h, [0, 3])
    expected = [mixed.model_.head.kernel_matrix(h, h, gp).detach().double().numpy() for gp in range(4)]
    assert np.allclose(found.by_gp[3], expected[3], atol=1e-6)
    weight = mixed.model_.head.mixing.weight.detach().double().numpy()
    summed = sum((weight[:, gp] ** 2).mean() * expected[gp] for gp in range(4))
    assert np.allclose(found.summed, summed, atol=1e-5 * summed.max())


def dense_likeness(model, h):
    """Correlations of the outputs, from M K Mᵀ of each GP, with nothing of the package but its parameters."""
    head = model.head
    gps, weight = head.members()[0].gps, head.mixing.weight.detach().double()
    total = torch.zeros(len(h), len(h), dtype=torch.float64)
    with torch.no_grad():
        z = head.bounding(h).double()
    for gp in range(weight.shape[1]):
        M = interpolation_matrix((z[:, [gp]] + 1) / 2 * (8 - 3) + 1, [8])  # one spacing free at either end
        variance = gps.kernel.log_variance[gp].detach().double().exp()
        K = variance * line_correlation("rbf", gps.kernel.axes[0].lengthscale[gp].detach().double(), 8)
        total += weight[:, gp].square().mean() * M @ K @ M.T
    deviation = total.diagonal().sqrt()
    return (total / deviation / deviation[:, None]).numpy()


def test_nearest_rows_against_dense_algebra(mixed, mixed_facts, monkeypatch):
    model, asked = copy.deepcopy(mixed.model_), np.array([3, 50, 120])
    h = mixed_facts.features + torch.rand(200, 4, generator=torch.Generator().manual_seed(0))  # none is constant
    with torch.no_grad():
        model.head.mixing.weight.copy_(torch.tensor([[0.1, 2.0, 0.3, 1.0], [0.5, 0.1, 0.0, 3.0], [1.0, 0.2, 2.0, 0.0]]))
    found = neighbours(model, h, asked)
    likeness = dense_likeness(model, h)
    for row, places, told in zip(asked, found.places, found.likeness):
        others = np.delete(likeness[row], row)
        assert row not in places
        assert len(set(places.tolist())) == 5
        assert told == pytest.approx(np.sort(others)[::-1][:5], abs=1e-4)
        assert told == pytest.approx(likeness[row, places], abs=1e-4)
    # Rows are taken in blocks of what may be held at a time.
    monkeypatch.setattr("svdkl.report.facts.gp_facts.CELLS", 4 * 8 * 7)
    again = neighbours(model, h, asked)
    assert again.likeness == pytest.approx(found.likeness, abs=1e-6)
    assert neighbours(model, h[:3], np.array([1])).places.shape == (1, 2)


def test_nearest_rows_are_told_by_their_numbers_in_the_table(mixed, monkeypatch):
    monkeypatch.setattr(predictions_module, "FIGURE_ROWS", 40)
    X, y = mixed_table(60, 1)
    facts = gather(mixed, X, y, {})
    body = nearest_rows(facts, mixed.model_)
    first = int(most_doubtful(facts.predictions)[0])
    features = features_of(mixed, X)
    likeness = dense_likeness(mixed.model_, features)[first]
    shown = facts.predictions.doubt.rows
    nearest = max((row for row in shown.tolist() if row != first), key=lambda row: likeness[row])
    cells = re.findall(r"<td[^>]*>(.*?)</td>", body)
    assert cells[0] == str(first)
    assert cells[2].startswith(f"{nearest}: ")
    assert cells[2].endswith(f"({number(float(likeness[nearest]))})")
    assert len(cells) == 5 * 7


def test_processes_are_named_by_what_they_drive(tmp_path):
    random = np.random.default_rng(0)
    X, names = random.normal(size=(200, 3)), np.array(["low", "mid", "top"])
    y = names[np.digitize(X[:, 0], (-0.4, 0.4))]
    model = SVDKLClassifier(gps="outputs", **TINY).fit(X, y)
    with torch.no_grad():  # each GP drives an output of its own, the first the most
        model.model_.head.mixing.weight.copy_(torch.tensor([[0.0, 0.0, 9.0], [3.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    facts = gather(model, X, y, {})
    assert [strongest_output(facts.processes, gp)[0] for gp in range(3)] == [1, 2, 0]
    top = read_report(model, X, y, tmp_path, OF_CLASSES | OF_PROCESSES)
    driven = names[[1, 2, 0]]
    gp = int(facts.processes.order[0])
    assert f"process {gp} → {driven[gp]}" in top.words
    assert "held-out evidence this is the kernel" not in top.words
    assert "by falling influence" not in top.words[top.words.index("Mixing matrix") :][:400]
    chosen = read_page(write_report(model, X, y, tmp_path / "two.html", classes=["top", "low"]), set(top.figures))
    weight = model.model_.head.mixing.weight.detach()
    with torch.no_grad():
        felt = (weight - weight.mean(0)) * model.model_.head.marginals(facts.features).mean.std(0)
    for place, name in ((2, "top"), (0, "low")):
        assert f"process {int(felt[place].abs().argmax())} → {name}" in chosen.words


def test_a_process_of_targets_drives_the_one_with_the_larger_weight(two_targets):
    model = copy.deepcopy(two_targets.model_)
    with torch.no_grad():
        model.head.mixing.weight.copy_(torch.tensor([[3.0, 1.0, -2.0, 1.0], [2.0, 4.0, 1.0, -5.0]]))
    h = torch.rand(50, 4) * 4
    found = describe_processes(model, h)
    for gp, (expected, sign) in enumerate([(0, 1), (1, 1), (0, -1), (1, -1)]):
        place, move = strongest_output(found, gp)
        if found.influence[gp] > 0:
            assert (place, np.sign(move)) == (expected, sign)
    assert (found.influence > 0).any()


def test_small_classes_leave_their_room_to_others():
    labels = np.array([0] * 2 + [1] * 300 + [2] * 300)
    assert np.bincount(labels[rows_by_class(labels, 3, 4)]).tolist() == [2, 74, 74]


def test_features_in_batches(two_targets, monkeypatch):
    monkeypatch.setattr("svdkl.report.facts.gp_facts.BATCH", 7)
    X = np.random.default_rng(0).normal(size=(20, 3))
    expected = two_targets.model_.net(two_targets.encoder_.transform(X))
    assert torch.allclose(features_of(two_targets, X), expected, atol=1e-5)


# ------------------------------------------------------------------------------------------------------------- words


def test_words():
    assert [number(value) for value in (0, 0.012345, 12.345, 1234.5, -1.5, 1e-7, 2e9, math.nan)] == [
        "0", "0.0123", "12.3", "1,234", "−1.50", "1.00e−07", "2.00e+09", "–",
    ]  # fmt: skip
    assert number(0.123456, like=0.01) == "0.1235"
    wide = [share(value).replace("\N{NO-BREAK SPACE}", " ") for value in (0.0, 1e-5, 0.123, 0.99999, 1.0)]
    assert wide == ["0 %", "< 0.1 %", "12.3 %", "> 99.9 %", "100 %"]
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdefgh"), 3) == "a, b, c and 5 more"
    assert label("a\n b\x00" + "c" * 50, 10) == "a b ccccc…"
    assert label("") == "(empty)"
