"""The figure in README shows what the results say."""

import runpy
from pathlib import Path

import matplotlib

REPOSITORY = Path(__file__).parents[2]


def test_the_figure_is_what_the_results_say(tmp_path):
    """Other versions of matplotlib draw other bytes, so only the version that drew the figure is compared."""
    drawn = tmp_path / "results.svg"
    runpy.run_path(str(REPOSITORY / "docs" / "draw_results.py"))["main"](REPOSITORY / "results", drawn)
    figure = (REPOSITORY / "docs" / "images" / "results.svg").read_text()
    if f"Matplotlib v{matplotlib.__version__}," in figure:
        assert drawn.read_text() == figure, "run: python docs/draw_results.py"
    assert drawn.read_text().startswith("<?xml")
