"""Tables inside documents are what the results hold."""

from fractions import Fraction
from pathlib import Path

import pytest

from svdkl_research.pages.overview import fill_in, overview
from svdkl_research.suites.all_suites import get_suite
from svdkl_research.suites.results import Result, write_results
from svdkl_research.suites.suite import Task
from svdkl_research.task_commands import main

REPOSITORY = Path(__file__).parents[2]


def put(root: Path, dataset: str, model: str, seed: int, nlp: float, share: str = "1") -> None:
    run = Task("tabular", dataset, model, 0, seed, Fraction(share)).run
    write_results(root, "tabular", [Result(dataset, model, run, {"nlp": nlp}, {"share": share}, {})])


@pytest.fixture
def results(tmp_path) -> Path:
    for model, value in (("dnn", 0.5), ("svdkl", 0.4)):
        for seed in (0, 1):
            put(tmp_path, "adult", model, seed, value + 0.02 * seed)
        put(tmp_path, "flights", model, 0, 1 - value)
    put(tmp_path, "adult", "svdkl", 2, 0.1, share="1/10")
    return tmp_path


def test_one_measure_of_all_models_on_all_sets(results):
    assert overview(get_suite("tabular"), "nlp", results).splitlines() == [
        "|  | adult | flights |",
        "| --- | --- | --- |",
        "| network | 0.5100 ± 0.0141 | **0.5000** (one run) |",
        "| SV-DKL | **0.4100** ± 0.0141 | 0.6000 (one run) |",
    ]
    with pytest.raises(ValueError, match=r"^Expected a measure of tabular out of accuracy, nlp, .*, got 'rmse'\.$"):
        overview(get_suite("tabular"), "rmse", results)


def test_only_the_places_that_are_marked_change(results, tmp_path):
    marked = "a\n<!-- results: tabular nlp -->\nold\n<!-- end of results -->\nb | c\n"
    filled = fill_in(marked, results)
    assert filled.startswith("a\n<!-- results: tabular nlp -->\n\n|  | adult |")
    assert filled.endswith("(one run) |\n\n<!-- end of results -->\nb | c\n")
    assert "old" not in filled
    assert fill_in(filled, results) == filled
    document = tmp_path / "page.md"
    document.write_text(marked)
    assert main(["fill", str(document), "--results", str(results)]) == 0
    assert document.read_text() == filled


def test_the_page_of_results_is_what_the_results_say():
    page = (REPOSITORY / "docs" / "results.md").read_text()
    assert "<!-- results: uci nlp -->" in page
    assert fill_in(page, REPOSITORY / "results") == page, "run: python -m svdkl_research fill docs/results.md"
