"""Findings and limits, in words."""

from dataclasses import replace

import numpy as np
import pytest
from reported import CITY, made_up, mixed_table, random_predictions

from svdkl.report.facts.all_facts import gather
from svdkl.report.facts.findings import class_findings, limits
from svdkl.report.facts.scores import calibration_error_by_chance, class_scores
from svdkl.report.words import label, share

pytestmark = pytest.mark.usefixtures("small_reports")


def test_findings_tell_calibrated_probabilities_from_others():
    for sharpness, words in ((1.0, "No sign of miscalibration"), (3.0, "overconfident"), (0.4, "underconfident")):
        predictions = random_predictions(1500, sharpness=sharpness)
        scores = {score.metric.name: score for score in class_scores(predictions)}
        assert words in " ".join(class_findings(predictions, scores))
    assert (
        0 < calibration_error_by_chance(random_predictions(1500)) < calibration_error_by_chance(random_predictions(100))
    )


def test_columns_and_what_is_strange_in_them(mixed):
    X, y = mixed_table(100, 1)
    X.loc[:24, CITY] = "never seen"
    X["_" * 300] = X["_" * 300].astype(object).where(X.index > 9, None)
    facts = gather(mixed.fitted_, X, y, {})
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
