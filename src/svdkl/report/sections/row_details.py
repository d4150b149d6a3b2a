"""Single test rows worth a look."""

from svdkl.report.facts.all_facts import Facts
from svdkl.report.facts.doubt import MOST_COLUMNS, cells, deviations_away, most_doubtful, most_surprising, surely_wrong
from svdkl.report.facts.predictions import ClassPredictions, Ints, RealPredictions, entropy
from svdkl.report.html import Section, heading, paragraph, table
from svdkl.report.thumbnails import numbered
from svdkl.report.words import count, label, number, share
from svdkl.tables.table import Table

MOST_TARGETS = 3  # targets of four columns each that fit into a table


def notable_rows(facts: Facts) -> Section:
    """Show the most doubtful rows, and rows in which the model was sure and wrong."""
    predictions = facts.predictions
    body = paragraph("Rows are counted from 0, in the order of the test table.")
    body += heading("Most uncertain rows") + _table(facts, most_doubtful(predictions))
    if not isinstance(predictions, ClassPredictions):
        told = "Rows whose targets lie most predicted deviations away from their predictions."
        body += heading("Most surprising rows") + paragraph(told) + _table(facts, most_surprising(predictions))
    elif len(wrong := surely_wrong(predictions)):
        told = "Mistakes with the highest probabilities: wrong labels in the data are often among them."
        body += heading("Surely wrong rows") + paragraph(told) + _table(facts, wrong)
    else:
        body += heading("Surely wrong rows") + paragraph("No test row is wrong with a probability above one half.")
    return Section("rows", "Rows to look at", body)


def _table(facts: Facts, rows: Ints) -> str:
    predictions = facts.predictions
    if isinstance(predictions, ClassPredictions):
        head, lines, numbers = _class_cells(predictions, rows)
    else:
        head, lines, numbers = _real_cells(predictions, rows)
    head, lines = ["Row", *head], [[numbered(facts, int(row)), *line] for row, line in zip(rows, lines)]
    left_out = 0
    if isinstance(facts.shown, Table):
        names = facts.shown.names
        head += [label(name, 30) for name in names[:MOST_COLUMNS]]
        for line, values in zip(lines, cells(facts.shown, rows), strict=True):
            line += [label(value, 40) for value in values]
        left_out = max(0, len(names) - MOST_COLUMNS)
    more = paragraph(f"{count(left_out, 'more column')} not shown.") if left_out else ""
    return table(head, lines, [0, *numbers], kind="lines") + more


def _class_cells(predictions: ClassPredictions, rows: Ints) -> tuple[list[str], list[list[str]], list[int]]:
    p = predictions.probabilities[rows]
    chosen, truth = predictions.chosen[rows], predictions.labels[rows]
    lines = [
        [
            label(predictions.classes[said]),
            share(float(one[said])),
            label(predictions.classes[true]),
            share(float(one[true])),
            number(float(doubt)),
        ]
        for one, said, true, doubt in zip(p, chosen, truth, entropy(p))
    ]
    return ["Prediction", "Its probability", "Truth", "Its probability", "Uncertainty (nats)"], lines, [2, 4, 5]


def _real_cells(predictions: RealPredictions, rows: Ints) -> tuple[list[str], list[list[str]], list[int]]:
    away = deviations_away(predictions)
    head: list[str] = []
    columns: list[list[str]] = []
    for place, name in enumerate(predictions.targets[:MOST_TARGETS]):
        of = f" of {label(name)}" if len(predictions.targets) > 1 else ""
        head += [f"Prediction{of}", "± deviation", f"Truth{of}", "Deviations away"]
        columns += [
            [number(float(value), 4) for value in part[rows, place]]
            for part in (predictions.mean, predictions.std, predictions.values, away)
        ]
    return head, [list(line) for line in zip(*columns, strict=True)], list(range(1, len(head) + 1))
