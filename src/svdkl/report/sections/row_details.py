"""Single test rows worth a look."""

from svdkl.report.facts.all_facts import Facts
from svdkl.report.facts.doubt import cells, deviations_away, most_doubtful, most_surprising, surely_wrong
from svdkl.report.facts.predictions import ClassPredictions, Ints, RealPredictions, entropy
from svdkl.report.html import Section, heading, paragraph, table
from svdkl.report.thumbnails import numbered
from svdkl.report.words import count, label, number, share
from svdkl.tables.table import Table

MOST_TARGETS = 3  # targets of four columns each that fit into a table


def notable_rows(facts: Facts) -> Section:
    """Show the most doubtful rows, and rows in which the model was sure and wrong."""
    predictions = facts.predictions
    doubtful = paragraph("Rows are counted from 0, in the order of the test table.")
    doubtful += heading("Most uncertain rows") + _table(facts, most_doubtful(predictions))
    if not isinstance(predictions, ClassPredictions):
        body = heading("Most surprising rows") + paragraph(
            "Rows whose targets lie most predicted deviations away from their predictions."
        )
        return Section("rows", "Rows to look at", doubtful + body + _table(facts, most_surprising(predictions)))
    wrong = surely_wrong(predictions)
    body = heading("Surely wrong rows")
    if len(wrong):
        body += paragraph("Mistakes with the highest probabilities: wrong labels in the data are often among them.")
        body += _table(facts, wrong)
    else:
        body += paragraph("No test row is wrong with a probability above one half.")
    return Section("rows", "Rows to look at", doubtful + body)


def _table(facts: Facts, rows: Ints) -> str:
    predictions = facts.predictions
    if isinstance(predictions, ClassPredictions):
        head, lines, numbers = _class_cells(predictions, rows)
    else:
        head, lines, numbers = _real_cells(predictions, rows)
    if not isinstance(facts.shown, Table):
        return table(
            ["Row", *head],
            [[numbered(facts, int(row)), *line] for row, line in zip(rows, lines)],
            [0, *numbers],
            kind="lines",
        )
    values = cells(facts.shown, rows)
    filled = [
        [count(int(row)), *line, *(label(cell, 40) for cell in one)]
        for row, line, one in zip(rows, lines, values.rows, strict=True)
    ]
    names = [label(name, 30) for name in values.names]
    shown = table(["Row", *head, *names], filled, [0, *numbers], kind="lines")
    return shown + (paragraph(f"{count(values.left_out, 'more column')} not shown.") if values.left_out else "")


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
