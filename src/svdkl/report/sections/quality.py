"""How good the predictions are: metrics, their meaning, calibration, errors."""

from svdkl.estimators.targets import COUNTS
from svdkl.report.facts.all_facts import Facts
from svdkl.report.facts.findings import class_findings, real_findings
from svdkl.report.facts.predictions import ClassPredictions, Predictions, RealPredictions
from svdkl.report.facts.scores import Reliability, confusion_matrix, coverage, frequent_confusions, of_class, top_label
from svdkl.report.figures.quality_plots import POINTS, confusion, reliability, residuals
from svdkl.report.html import Panel, Section, bullets, figure, paragraph, scores, table
from svdkl.report.words import count, label, number, share

FEW_CLASSES = 6  # classes that can each have a reliability diagram of their own: two lines of panels
MOST_TARGETS = 6  # targets that are drawn: two lines of panels


def metrics(facts: Facts) -> Section:
    """Show all metrics, with interval and baseline."""
    predictions = facts.predictions
    if isinstance(predictions, ClassPredictions):
        body = scores(list(facts.scores[0].values()))
        baseline = "gives every row the shares of the classes among the test rows"
    else:
        captions = [label(name, 60) if len(predictions.targets) > 1 else "" for name in predictions.targets]
        body = "".join(scores(list(one.values()), name) for one, name in zip(facts.scores, captions, strict=True))
        baseline = "gives every row the mean and the deviation of the target among the test rows"
        likelihood = facts.fitted.reals.likelihood
        if likelihood != "gaussian":
            body += paragraph(
                f"The model's distribution is {likelihood.replace('_', ' ')}; density and ranked "
                f"probability score are those of a Gaussian with its mean and deviation, the coverage is its own."
            )
    note = (
        f"All test rows count. Intervals are from a bootstrap over rows: another test set of this size from the same "
        f"source would mostly give values within them. The baseline {baseline}."
    )
    return Section("metrics", "Metrics", body + paragraph(note))


def meaning(facts: Facts) -> Section:
    """Put the metrics into words."""
    predictions = facts.predictions
    if isinstance(predictions, ClassPredictions):
        found = class_findings(predictions, facts.scores[0])
    else:
        found = real_findings(predictions, facts.scores)
    return Section("meaning", "What the numbers mean", bullets(found))


def calibration(facts: Facts) -> Section:
    """Show whether probabilities or intervals mean what they say."""
    predictions = facts.predictions
    if isinstance(predictions, ClassPredictions):
        return Section("calibration", "Calibration", _reliability(predictions))
    panels = []
    for place, title in drawn_targets(predictions):
        found = coverage(predictions, place)
        svg = reliability(found, title, "level of the interval", "rows within", counted=False)
        panels.append(Panel(svg, f"Share of rows within central intervals, by level: {_read(found)}"))
    caption = (
        "Read it as: of all intervals that should hold 80 % of the rows, how many rows do they hold? Points on the "
        "dashed line are right, below it predicted deviations are too small, above it too large; grey bars are what "
        "chance allows, and points outside of them are hollow."
    )
    if facts.fitted.reals.likelihood in COUNTS:
        caption += " Intervals of counts end at whole numbers, so that they hold more rows than their level says."
    return Section("calibration", "Calibration", figure("coverage", "Coverage of intervals", panels, caption))


def mistakes(facts: Facts) -> Section:
    """Show where the predictions are wrong."""
    predictions = facts.predictions
    body = _confusion(predictions) if isinstance(predictions, ClassPredictions) else _residuals(predictions)
    return Section("errors", "Errors", body)


def drawn_targets(predictions: Predictions) -> list[tuple[int, str]]:
    """Choose the targets that figures show, each with its title, which only several targets need."""
    names = ("",) if isinstance(predictions, ClassPredictions) else predictions.targets
    return [(place, label(name) if len(names) > 1 else "") for place, name in enumerate(names[:MOST_TARGETS])]


def _reliability(predictions: ClassPredictions) -> str:
    top = top_label(predictions)
    svg = reliability(top, "predicted class", "confidence", "accuracy", counted=True)
    panels = [Panel(svg, f"Accuracy by confidence: {_read(top)}")]
    size = len(predictions.classes)
    few = range(1 if size == 2 else 0, size) if size <= FEW_CLASSES else ()
    for place in few:
        found = of_class(predictions, place)
        name = label(predictions.classes[place])
        svg = reliability(found, name, "predicted probability", "share of the class", counted=True)
        panels.append(Panel(svg, f"Share of {name} by its predicted probability: {_read(found)}"))
    caption = (
        "Read it as: of the rows whose predicted class has a probability of 80 %, how many are right? Points on the "
        "dashed line are right, below it the model is overconfident; grey bars are what chance allows, points outside "
        "of them are hollow, large ones stand for many rows, as do the columns below."
    )
    if few:
        caption += " The other diagrams show the probability of one class each, whether it is the predicted one or not"
        caption += "; the other class is its mirror image." if size == 2 else "."
    return figure("reliability", "Reliability of probabilities", panels, caption)


def _read(found: Reliability) -> str:
    return ", ".join(f"{share(x)}: {share(y)}" for x, y in zip(found.predicted, found.observed))


def _confusion(predictions: ClassPredictions) -> str:
    matrix = confusion_matrix(predictions)
    names = [label(name, 16) for name in predictions.classes]
    told = f"Of {count(int(matrix.sum()), 'row')}, {count(int(matrix.trace()))} lie on the diagonal."
    panel = Panel(confusion(matrix, names), told)
    caption = (
        "Read a line as: what are rows of this true class taken for? The stronger the colour, the larger the share of "
        "the line; all that lies off the diagonal is wrong."
    )
    body = figure("confusion", "Confusion of classes", [panel], caption, wide=len(names) > 12)
    found = frequent_confusions(matrix)
    if not found:
        return body + paragraph("No test row is in a wrong class.")
    classes = predictions.classes
    rows = [
        [label(classes[one.truth], 60), label(classes[one.prediction], 60), count(one.rows), share(one.share)]
        for one in found
    ]
    head = ["Truth", "Prediction", "Rows", "Share of the true class"]
    return body + table(head, rows, numbers=(2, 3), caption="Most frequent confusions")


def _residuals(predictions: RealPredictions) -> str:
    rows = predictions.doubt.rows
    panels = []
    for place, title in drawn_targets(predictions):
        mean, std = predictions.mean[rows, place], predictions.std[rows, place]
        residual, name = predictions.values[rows, place] - mean, label(predictions.targets[place])
        told = f"Errors of {name}: mean {number(residual.mean())}, deviation {number(residual.std())}."
        panels.append(Panel(residuals(mean, residual, std, title, name), told))
    some = f" At most {count(POINTS)} points are drawn." if len(rows) > POINTS else ""
    caption = (
        "Read it as: is the prediction too low (points above zero) or too high somewhere, and does the band, two "
        f"predicted deviations wide on either side, hold nearly all points? Those outside of theirs are orange.{some}"
    )
    return figure("residuals", "Errors against predictions", panels, caption)
