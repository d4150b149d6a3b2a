"""The section on the GPs."""

import re

import pytest
from reported import dense_likeness, mixed_table

from svdkl.report.facts import predictions as predictions_module
from svdkl.report.facts.all_facts import gather
from svdkl.report.facts.doubt import most_doubtful
from svdkl.report.facts.gp_facts import features_of
from svdkl.report.sections.gps import nearest_rows
from svdkl.report.words import number

pytestmark = pytest.mark.usefixtures("small_reports")


def test_nearest_rows_are_told_by_their_numbers_in_the_table(mixed, monkeypatch):
    monkeypatch.setattr(predictions_module, "FIGURE_ROWS", 40)
    X, y = mixed_table(60, 1)
    facts = gather(mixed.fitted_, X, y, {})
    body = nearest_rows(facts)
    first = int(most_doubtful(facts.predictions)[0])
    features = features_of(mixed.fitted_, facts.rows)
    likeness = dense_likeness(mixed.model_.head, features)[first]
    shown = facts.predictions.doubt.rows
    nearest = max((row for row in shown.tolist() if row != first), key=lambda row: likeness[row])
    cells = re.findall(r"<td[^>]*>(.*?)</td>", body)
    assert cells[0] == str(first)
    assert cells[2].startswith(f"{nearest}: ")
    assert cells[2].endswith(f"({number(float(likeness[nearest]))})")
    assert len(cells) == 5 * 7
