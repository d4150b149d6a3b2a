"""What was trained, on which columns, and how training went."""

from collections import Counter

import numpy as np

from svdkl.report.facts.all_facts import Facts
from svdkl.report.facts.model_facts import describe_model, options, plain, versions
from svdkl.report.facts.predictions import ClassPredictions
from svdkl.report.figures.learning_curve import learning
from svdkl.report.html import Panel, Section, figure, folded, heading, pairs, paragraph, table
from svdkl.report.words import ABSENT, count, label, number, share

STAGES = {"network": "network alone", "joint": "with Gaussian processes"}
PLURALS = {"category": "categories", "ignored": "ignored"}  # of kinds of columns that take more than an s, or none
MOST_LISTED = 20  # columns or classes: longer tables are folded, so that a page can be skimmed


def data(facts: Facts) -> Section:
    """Show the target and the columns, as the model understands them."""
    body = _classes(facts.predictions) if isinstance(facts.predictions, ClassPredictions) else _targets(facts)
    if not facts.columns:
        shape = " × ".join(map(str, facts.fitted.columns.shape or ()))
        return Section("data", "Data", body + paragraph(f"The network is the user's own; its rows have shape {shape}."))
    rows = [
        [
            label(column.name, 80),
            column.kind,
            column.encoding,
            share(column.missing) if column.missing else ABSENT,
            share(column.unknown) if column.unknown else ABSENT,
        ]
        for column in facts.columns
    ]
    head = ["Column", "Kind", "How it is encoded", "Missing in test rows", "Rare or new in test rows"]
    columns = table(head, rows, numbers=(3, 4))
    if len(rows) > MOST_LISTED:
        columns = folded(f"All {len(rows)} columns", columns)
    kinds = Counter(column.kind for column in facts.columns)
    summary = ", ".join(count(rows, kind, PLURALS.get(kind, "")) for kind, rows in kinds.items())
    return Section("data", "Data", body + heading("Columns") + paragraph(f"By kind: {summary}.") + columns)


def training(facts: Facts) -> Section:
    """Show the model, its options, and its learning curves."""
    body = pairs(describe_model(facts.fitted)) + folded("All options", pairs(options(facts.fitted)))
    history = facts.fitted.history
    if history:
        scaled = [epoch.scaled_nlp for epoch in history if epoch.scaled_nlp is not None]
        for_classes = len(scaled) == len(history)
        svg = learning(
            [STAGES.get(epoch.stage, epoch.stage) for epoch in history],
            np.array([epoch.train_loss for epoch in history]),
            np.array([epoch.held_out_nlp for epoch in history]),
            np.array(scaled) if for_classes else None,
        )
        best = min(epoch.held_out_nlp for epoch in history)
        panel = Panel(svg, f"Losses of {count(len(history), 'epoch')}; the best held-out one is {number(best)}.")
        caption = (
            "Read it as: has the held-out line stopped falling, and does it stay near the training line? The loss of "
            "the second stage includes what the GPs cost (the negative evidence lower bound), so only held-out lines "
            "compare across stages. Without held-out rows, that line shows the training rows."
        )
        if for_classes:
            caption += (
                " A network that goes on learning becomes too sure of itself, which one temperature puts right, and so "
                "does the last stage of models with GPs: these keep the epoch at which the dashed line is lowest."
            )
        body += figure("learning", "Learning curves", [panel], caption)
        body += "".join(paragraph(epoch.note) for epoch in history if epoch.note)
    return Section("training", "Training", body)


def provenance(facts: Facts) -> Section:
    """Say where the model and the page come from."""
    body = ""
    if facts.run:
        body += heading("Training run") + pairs({str(name): plain(value) for name, value in facts.run.items()})
    return Section("provenance", "Provenance", body + heading("Versions that wrote this page") + pairs(versions()))


def _classes(predictions: ClassPredictions) -> str:
    counts = np.bincount(predictions.labels, minlength=len(predictions.classes))
    hits = np.bincount(predictions.labels, predictions.correct, len(predictions.classes))
    said = np.bincount(predictions.chosen, minlength=len(predictions.classes))
    rows = [
        [
            label(name, 80),
            count(int(rows)),
            share(rows / counts.sum()),
            share(float(predictions.probabilities[:, place].mean())),
            share(hits[place] / rows) if rows else ABSENT,
            share(hits[place] / said[place]) if said[place] else ABSENT,
        ]
        for place, (name, rows) in enumerate(zip(predictions.classes, counts))
    ]
    right = "Right when predicted (precision)"
    head = ["Class", "Test rows", "Share", "Mean probability", "Recognised (recall)", right]
    body = table(head, rows, numbers=range(1, 6))
    if len(rows) > MOST_LISTED:
        body = folded(f"All {len(rows)} classes", body)
    return heading(f"Target: {label(predictions.target, 60)}") + body


def _targets(facts: Facts) -> str:
    predictions = facts.predictions
    assert not isinstance(predictions, ClassPredictions)
    rows = [
        [label(name, 80), *(number(float(value), 4) for value in (y.min(), np.median(y), y.max(), y.mean(), y.std()))]
        for name, y in zip(predictions.targets, predictions.values.T)
    ]
    head = ["Target", "Lowest", "Median", "Highest", "Mean", "Deviation"]
    return heading("Targets of the test rows") + table(head, rows, numbers=range(1, 6))
