"""Doubtful test rows beside those that the deep kernel takes for most like them."""

import numpy as np

from svdkl.model import SVDKL
from svdkl.report.facts.about import has_evidence
from svdkl.report.facts.extremes import most_doubtful
from svdkl.report.facts.gathered import Facts
from svdkl.report.facts.neighbours import neighbours
from svdkl.report.facts.predictions import ClassPredictions, Predictions
from svdkl.report.markup import heading, paragraph
from svdkl.report.tables import table
from svdkl.report.thumbnails import numbered
from svdkl.report.words import label, number

MOST_ROWS = 5
MOST_TARGETS = 3


def nearest_rows(facts: Facts, model: SVDKL) -> str:
    """A table of the most doubtful rows and their nearest neighbours; nothing where there is one row only."""
    predictions = facts.predictions
    rows, doubtful = predictions.doubt.rows, most_doubtful(predictions)[:MOST_ROWS]
    if len(rows) < 2:
        return ""
    found = neighbours(model, facts.features, np.searchsorted(rows, doubtful))
    lines = [
        [numbered(facts, int(row)), _truth(predictions, int(row))]
        + [
            numbered(facts, int(near), f": {_truth(predictions, int(near))} ({number(float(alike))})")
            for near, alike in zip(rows[places], likeness)
        ]
        for row, places, likeness in zip(doubtful, found.places, found.likeness)
    ]
    head = ["Row", "Truth", "Nearest row: truth (likeness)", *(f"{place}." for place in range(2, len(lines[0]) - 1))]
    words = (
        "For the most uncertain rows, the test rows that the kernel on the network's features takes for most like "
        "them, and what those are: a row among others of another truth is hard to tell, or its label is wrong. The "
        "likeness is the correlation of the outputs under all processes, by their squared mixing weights: 1 is the "
        f"same, 0 has nothing in common.{kernel_caveat(model)}"
    )
    return heading("Nearest rows under the deep kernel") + paragraph(words) + table(head, lines, [0], kind="lines")


def kernel_caveat(model: SVDKL) -> str:
    """What is to be said of the kernel of a model whose last stage has replaced it; to end a paragraph."""
    if not has_evidence(model):
        return ""
    return " After the held-out evidence this is the kernel of what that stage may add to the functions."


def _truth(predictions: Predictions, row: int) -> str:
    if isinstance(predictions, ClassPredictions):
        return label(predictions.classes[int(predictions.labels[row])])
    return ", ".join(number(float(value), 4) for value in predictions.values[row, :MOST_TARGETS])
