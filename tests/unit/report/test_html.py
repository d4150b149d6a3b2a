"""Figures in a page: names that differ, and text that is escaped."""

import re

import numpy as np

from svdkl.report.facts.doubt import Curve
from svdkl.report.figures.quality_plots import draw_rejection
from svdkl.report.html import Panel, figure

ODD = "$\\frac{a}{b}$ <b>&\"' 日本"
FEW = np.linspace(0.1, 0.9, 5)


def drawn():
    return draw_rejection([Curve("total uncertainty", FEW, FEW), Curve(ODD, FEW, FEW)], "y", True, "")


def test_names_inside_two_figures_on_a_page_differ():
    svg = drawn()
    page = figure("a", "t", [Panel(svg, "d"), Panel(svg, "d")], "c") + figure("b", "t", [Panel(svg, "d")], "c")
    names = re.findall(r' id="([^"]*)"', page)
    assert len(names) == len(set(names)) > 4
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', page))
    assert used
    assert used <= set(names)


def test_descriptions_and_captions_are_escaped():
    page = figure("a", ODD, [Panel(drawn(), ODD)], ODD)
    assert "<b>" not in page
    assert 'role="img" aria-label="$\\frac{a}{b}$ &lt;b&gt;&amp;&quot;&#x27; 日本"' in page
