"""Verdicts are paired differences, and words that follow from them."""

import numpy as np
import pytest

from svdkl_research.pages.measures import MEASURES
from svdkl_research.pages.verdicts import Comparison, compare, verdicts
from svdkl_research.suites.all_suites import get_suite
from svdkl_research.suites.results import Result

ACCURACY, NLP = MEASURES["classification"][:2]


def results(model: str, accuracy: list[float | None], nlp: list[float | None], start: int = 0) -> list[Result]:
    pairs = enumerate(zip(accuracy, nlp), start)
    return [Result("adult", model, f"fold{n}-seed0", {"accuracy": a, "nlp": p}, {}, {}) for n, (a, p) in pairs]


def test_differences_are_of_the_same_runs():
    rng = np.random.default_rng(0)
    ours, theirs = 0.8 + 0.1 * rng.random((2, 5))
    # The spread over folds is much larger than that of the differences.
    ours[:] = theirs + 0.003 * rng.standard_normal(5)
    comparison = compare(NLP, results("svdkl", [0.9] * 5, list(ours)), results("dnn", [0.9] * 5, list(theirs))[::-1])
    assert comparison is not None
    assert comparison.mean == pytest.approx(np.mean(ours - theirs))
    assert comparison.spread == pytest.approx(np.std(ours - theirs, ddof=1))
    assert comparison.spread < 0.2 * np.std(ours)
    # Folds 2 to 4 of one, 0 to 3 of the other; and one that has no number.
    late = results("svdkl", [0.5, 0.7, 0.9], [1.0, None, 1.0], start=2)
    both = results("dnn", [0.1, 0.1, 0.3, 0.4], [0.5] * 4)
    assert compare(ACCURACY, late, both).differences == pytest.approx((0.2, 0.3))
    assert compare(NLP, late, both).differences == (0.5,)
    assert compare(NLP, late, []) is None


@pytest.mark.parametrize(
    ("measure", "differences", "verdict"),
    [
        (ACCURACY, (0.02, 0.03, 0.04), "better"),
        (ACCURACY, (-0.02, -0.03, -0.04), "worse"),
        (NLP, (-0.02, -0.03, -0.04), "better"),
        (NLP, (0.02, 0.03, 0.04), "worse"),
        (NLP, (0.02, -0.03, 0.04), "no difference beyond the spread"),
        (NLP, (-0.1, -0.3), "better"),  # mean -0.2, deviation 0.1414
        (NLP, (-0.1, -0.6), "no difference beyond the spread"),  # mean -0.35, deviation 0.3536
        (NLP, (0.0, 0.0), "no difference beyond the spread"),
        (ACCURACY, (0.1, 0.1), "better"),
        (ACCURACY, (0.1,), "no spread known"),
        (NLP, (-0.000144, -0.000838), "no difference beyond the spread"),  # mean and deviation are printed as 0.00049
    ],
)
def test_words(measure, differences, verdict):
    assert Comparison(measure, differences).verdict == verdict


def test_lines():
    by_model = {
        "svdkl": results("svdkl", [0.92, 0.94], [0.30, 0.10]),
        "dnn": results("dnn", [0.90, 0.93], [0.20, 0.30]),
        "dnn_gp": results("dnn_gp", [0.95], [0.1]),
        "lightgbm": results("lightgbm", [0.99, 0.99], [0.1, 0.1]),
    }
    assert verdicts(get_suite("uci"), by_model) == [
        "SV-DKL against network: accuracy better (+0.01500 ± 0.00707, 2 runs); "
        "NLP no difference beyond the spread (-0.05000 ± 0.21213, 2 runs).",
        "SV-DKL against GP on frozen features: accuracy no spread known (-0.03000, 1 run); "
        "NLP no spread known (+0.20000, 1 run).",
        "SV-DKL against LightGBM: accuracy worse (-0.06000 ± 0.01414, 2 runs); "
        "NLP no difference beyond the spread (+0.10000 ± 0.14142, 2 runs).",
    ]


def test_runs_of_two_commits_are_counted():
    ours, theirs = (results(model, [0.9, 0.9], [0.3, 0.3]) for model in ("svdkl", "dnn"))
    for result, commit in zip([*ours, *theirs], "aaab", strict=True):
        result.provenance["commit"] = commit
    assert compare(NLP, ours, theirs).text.endswith("2 runs, 1 of them of two commits)")
    assert compare(NLP, ours[1:], theirs[1:]).text.endswith("1 run, of two commits)")
    assert compare(NLP, ours[:1], theirs[:1]).text.endswith("1 run)")
