"""The figures of a report: SVG that fits into a page, whatever the names and numbers."""

import re
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest

from svdkl.report.facts.doubt import Binned, Curve
from svdkl.report.facts.gp_facts import LearnedFunction
from svdkl.report.facts.scores import Reliability
from svdkl.report.figures.canvas import NEGATIVE, POSITIVE, VARIABLES, diverging, sequential
from svdkl.report.figures.gp_plots import function, grid_use, hyperparameters, kernel, mixing
from svdkl.report.figures.learning_curve import learning
from svdkl.report.figures.quality_plots import confusion, draw_rejection, errors_by_doubt, reliability, residuals
from svdkl.report.html import Panel, figure

ODD = "$\\frac{a}{b}$ <b>&\"' 日本"
CODE = ' id="x" href="#x" #010101 font: 9px y; xlink:href'
ONE, FEW = np.array([0.5]), np.linspace(0.1, 0.9, 5)
TOTAL = Curve("total uncertainty", FEW, FEW)

FIGURES = {
    "reliability": lambda: reliability(Reliability(FEW, FEW, FEW - 0.1, FEW + 0.1, 10 * FEW), ODD, ODD, ODD, True),
    "coverage": lambda: reliability(Reliability(FEW, FEW + 0.2, FEW - 0.1, FEW + 0.1, FEW), ODD, "x", "y", False),
    "one point": lambda: reliability(Reliability(ONE, ONE, ONE, ONE, ONE), ODD, "x", "y", True),
    "confusion": lambda: confusion(np.array([[5, 1, 0], [0, 0, 0], [2, 0, 9]]), [ODD, "b", "c"]),
    "confusion of 60": lambda: confusion(np.eye(60, dtype=np.int64), [ODD] * 60),
    "residuals": lambda: residuals(np.linspace(0, 1, 50), np.sin(np.arange(50.0)), np.full(50, 0.4), ODD, ODD),
    "residual": lambda: residuals(ONE, ONE, ONE, "", ODD),
    "learning": lambda: learning(["a", "a", "b", "b"], np.array([3.0, 2.0, np.nan, 1.0]), np.array([3, np.inf, 2, 1])),
    "learning of classes": lambda: learning(["a", "b"], np.ones(2), np.ones(2), np.array([2.5, np.inf])),
    "one epoch": lambda: learning([ODD], ONE, ONE),
    "rejection": lambda: draw_rejection([TOTAL, Curve("best possible order", FEW, FEW)], "y", True, ""),
    "rejection of one": lambda: draw_rejection([Curve("total uncertainty", ONE, ONE)], ODD, False, ODD),
    "no errors": lambda: draw_rejection([Curve("total uncertainty", FEW, np.ones(5))], "y", True, ""),
    "errors": lambda: errors_by_doubt(Binned(FEW, FEW - 0.1, FEW + 0.1, FEW), ODD, "y", True),
    "mixing": lambda: mixing(np.array([[1.0, -2.0], [0.0, 3.0]]), [ODD, "b"], [7, 120], ODD),
    "mixing of nothing": lambda: mixing(np.zeros((1, 1)), [ODD], [0], "x"),
    "hyperparameters": lambda: hyperparameters(FEW, FEW[:, None], [4, 3, 2, 1, 0]),
    "no lengthscales": lambda: hyperparameters(FEW, np.full((5, 2), np.nan), [4, 3, 2, 1, 0]),
    "grid": lambda: grid_use([FEW / FEW.sum(), np.array([1.0, 0.0])], [1, 0]),
    "function": lambda: function(LearnedFunction(FEW, FEW, FEW, ONE), ODD, ODD, "y"),
    "function without rows": lambda: function(LearnedFunction(FEW, FEW, FEW, np.array([])), ODD, "x", "y"),
    "kernel": lambda: kernel(np.eye(6), [(ODD, 4), ("b", 2)], ODD, ODD),
    "negative kernel": lambda: kernel(np.eye(3) - 0.5, [("", 3)], ODD, "x"),
    "one row": lambda: kernel(np.ones((1, 1)), [("a", 1)], ODD, "x"),
}


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_every_figure_fits_into_a_page(draw):
    svg = draw()
    root = ElementTree.fromstring(svg)
    assert root.tag == "svg"
    assert float(root.get("width")) > 100
    assert not re.search(r"https?:|<metadata|<style|<!--|xlink|xmlns", svg)
    assert not any(placeholder in svg for placeholder in VARIABLES)
    assert "var(--ink)" in svg
    assert "DejaVu" not in svg  # text in the page's own font
    assert "".join(root.itertext()).strip()
    assert "nan" not in svg.lower()


def test_names_are_kept_to_the_letter():
    svg = mixing(np.ones((2, 1)), [ODD, CODE], [0], "x")
    page = figure("a", "t", [Panel(svg, "d")], "c")
    for markup in (svg, page):
        texts = [element.text for element in ElementTree.fromstring(markup).iter("text")]
        assert {ODD, CODE} <= set(texts)


def test_the_same_numbers_give_the_same_figure_in_any_thread():
    with ThreadPoolExecutor(4) as pool:
        figures = list(pool.map(lambda _: FIGURES["kernel"](), range(4)))
    assert len(set(figures)) == 1


def test_the_style_of_the_program_is_neither_used_nor_changed():
    plain = FIGURES["errors"]()
    with matplotlib.rc_context({"font.size": 40, "text.usetex": True, "svg.fonttype": "path"}):
        before = dict(matplotlib.rcParams)
        assert FIGURES["errors"]() == plain
        assert dict(matplotlib.rcParams) == before
    assert dict(matplotlib.rcParams) != before


def test_shades_are_transparent_at_zero_and_full_at_the_ends():
    assert sequential(np.array([0.0, 1.0, 2.0])).tolist() == [[*POSITIVE, 0], [*POSITIVE, 255], [*POSITIVE, 255]]
    assert diverging(np.array([-1.0, 0.0, 1.0])).tolist() == [[*NEGATIVE, 255], [*POSITIVE, 0], [*POSITIVE, 255]]
    assert sequential(np.array([np.nan]))[0, 3] == 0
