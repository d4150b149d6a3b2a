"""Whether the model knows what it does not know."""

from svdkl.report.facts.all_facts import Facts
from svdkl.report.facts.doubt import binned, doubts, rejection
from svdkl.report.facts.predictions import ClassPredictions
from svdkl.report.figures.quality_plots import draw_rejection, errors_by_doubt
from svdkl.report.html import Panel, Section, figure, paragraph
from svdkl.report.sections.quality import drawn_targets
from svdkl.report.words import number, share


def uncertainty(facts: Facts) -> Section:
    """Show the quality by the share of rows that is set aside, and errors by doubt."""
    return Section("uncertainty", "Uncertainty", _rejection(facts) + _errors(facts) + _parts(facts))


def _rejection(facts: Facts) -> str:
    classes = isinstance(facts.predictions, ClassPredictions)
    panels = []
    quality = "accuracy of the rest" if classes else "root mean squared error of the rest"
    show = share if classes else number
    for place, title in drawn_targets(facts.predictions):
        curves = rejection(facts.predictions, place)
        svg = draw_rejection(curves, quality, classes, title)
        ends = ", ".join(f"by {curve.name} {show(curve.y[0])} to {show(curve.y[-1])}" for curve in curves[:-1])
        panels.append(Panel(svg, f"{title} from all rows to the surest ones: {ends}.".strip()))
    good = "rises" if classes else "falls"
    caption = (
        f"Read it as: how good is the model if the most uncertain rows are handed to a person? The faster a line "
        f"{good}, the better doubt points at mistakes; no order can beat the dashed line, and the level one is chance."
    )
    return figure("rejection", "Quality when uncertain rows are set aside", panels, caption)


def _errors(facts: Facts) -> str:
    predictions = facts.predictions
    classes = isinstance(predictions, ClassPredictions)
    panels = []
    show = share if classes else number
    for place, title in drawn_targets(predictions):
        errors = ("error rate" if classes else "root mean squared error") + (f" of {title}" if title else "")
        for name, doubt in doubts(predictions, place).items():
            found = binned(predictions, doubt, place)
            svg = errors_by_doubt(found, f"rows, by rising {name} uncertainty", errors, classes)
            ends = f"from {show(float(found.error[0]))} to {show(float(found.error[-1]))}"
            panels.append(Panel(svg, f"{title} errors by {name} uncertainty, {ends}.".strip()))
    caption = (
        "Read it as: are rows with more uncertainty wrong more often, and as often as the model expects? Each column "
        "is an equal share of the rows, the surest on the left; columns should rise and end at the orange dashes."
    )
    return figure("doubt", "Errors by uncertainty", panels, caption)


def _parts(facts: Facts) -> str:
    doubt = facts.predictions.doubt
    if doubt.epistemic is None:
        return paragraph(
            "This model has no Gaussian processes: all its uncertainty counts as the data's, and what is due to the "
            "model itself is not known."
        )
    if isinstance(facts.predictions, ClassPredictions):
        what, part = "uncertainty", float(doubt.epistemic.sum() / max(doubt.total.sum(), 1e-300))
    else:
        what, part = "predicted variance", float((doubt.epistemic**2).sum() / (doubt.total**2).sum())
    words = f"Of the {what} of all rows together, {share(min(part, 1.0))} is the model's (epistemic)."
    if len(doubts(facts.predictions)) == 1:
        words += " It puts the rows into the same order as all uncertainty together, so that one line is drawn."
    return paragraph(words)
