"""Pieces of HTML: text, tables, figures. Whatever comes from data or users is escaped here and nowhere else."""

import html
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from svdkl.report.facts.scores import Score
from svdkl.report.words import ABSENT, number, share, visible
from svdkl.writing import written_whole

TITLES = {
    "accuracy": "Accuracy",
    "negative_log_probability": "Negative log probability",
    "brier_score": "Brier score",
    "auroc": "AUROC",
    "aurc": "Area under the risk-coverage curve",
    "expected_calibration_error": "Expected calibration error",
    "adaptive_calibration_error": "Adaptive calibration error",
    "rmse": "Root mean squared error",
    "mae": "Mean absolute error",
    "gaussian_nlpd": "Negative log density",
    "crps_gaussian": "Continuous ranked probability score",
    "interval_coverage": "Coverage of the 95 % interval",
}
MEANINGS = {
    "accuracy": "Share of rows whose most probable class is the true one.",
    "negative_log_probability": "Mean of −log p(true class): punishes sure mistakes most.",
    "brier_score": "Mean squared distance between the probabilities and the outcome, from 0 to 2.",
    "auroc": "How probably a row of a class gets a higher probability of it than another row; mean over classes.",
    "aurc": "Mean error rate over all shares of rows that could be kept, the surest first.",
    "expected_calibration_error": "Mean distance between confidence and accuracy, in 15 bins of confidence.",
    "adaptive_calibration_error": "Mean distance between confidence and accuracy, in 15 bins of equally many rows.",
    "rmse": "Typical size of an error; large errors count most.",
    "mae": "Mean size of an error.",
    "gaussian_nlpd": "Mean of −log density of the truth, under a Gaussian of the predicted mean and deviation.",
    "crps_gaussian": "Distance between that Gaussian and the truth: the absolute error, for distributions.",
    "interval_coverage": "Share of rows within their 95 % interval; 95 % is best.",
}


class Panel(NamedTuple):
    """One drawing of a figure, and a description for readers who do not see it."""

    svg: str
    description: str


class Markup(str):
    """Text that is HTML already, and is not escaped again."""


class Section(NamedTuple):
    """A part of the page with a place in its table of contents."""

    name: str
    title: str
    body: str


def text(value: object) -> str:
    """Return any value as text that HTML cannot mistake for markup; markup stays what it is."""
    return value if isinstance(value, Markup) else html.escape(visible(str(value)))


def paragraph(sentence: str) -> str:
    """Make a paragraph of plain text."""
    return f"<p>{text(sentence)}</p>"


def bullets(sentences: Iterable[str]) -> str:
    """Make a list of plain sentences."""
    return f"<ul>{''.join(f'<li>{text(sentence)}</li>' for sentence in sentences)}</ul>"


def heading(title: str) -> str:
    """Make the heading of a part of a section."""
    return f"<h3>{text(title)}</h3>"


def folded(summary: str, body: str) -> str:
    """Fold markup away under a summary, until a reader asks for it."""
    return f"<details><summary>{text(summary)}</summary>{body}</details>"


def figure(name: str, title: str, panels: list[Panel], caption: str, wide: bool = False) -> str:
    """Put drawings beside each other where there is room, with one caption that says how to read them."""
    shown = "".join(
        f'<div class="panel">{_embedded(panel, f"{name}-{place}")}</div>' for place, panel in enumerate(panels)
    )
    kind = "panels wide" if wide else "panels"
    return (
        f'<figure id="figure-{name}"><h3>{text(title)}</h3><div class="{kind}">{shown}</div>'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


def _embedded(panel: Panel, name: str) -> str:
    """Give the inner names of a drawing a prefix, so that no other drawing on the page has them."""

    def renamed(tag: re.Match[str]) -> str:
        own = re.sub(r' id="([^"]*)"', rf' id="{name}-\1"', tag[0])
        return re.sub(r'(url\(|href=")#', rf"\1#{name}-", own)

    svg = re.sub(r"<[^>]+>", renamed, panel.svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{text(panel.description)}" ', 1)


def section(part: Section) -> str:
    """Make a section with its heading."""
    return f'<section id="{part.name}"><h2>{text(part.title)}</h2>{part.body}</section>'


def contents(parts: list[Section]) -> str:
    """Make a list of links to all sections."""
    links = "".join(f'<li><a href="#{part.name}">{text(part.title)}</a></li>' for part in parts)
    return f'<nav aria-label="Contents"><ol>{links}</ol></nav>'


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[int] = (),
    caption: str = "",
    kind: str = "",
) -> str:
    """Make a table, in a box that scrolls where the page is too narrow.

    Cells are plain text. Columns of numbers, given by place, are set to the right; ``kind`` is a class of styles.
    """
    right = ' class="number"'
    top = "".join(f'<th scope="col"{right if i in numbers else ""}>{text(cell)}</th>' for i, cell in enumerate(head))
    body = "".join(
        "<tr>"
        + "".join(f"<td{right if i in numbers else ''}>{text(cell)}</td>" for i, cell in enumerate(row))
        + "</tr>"
        for row in rows
    )
    title = f"<caption>{text(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}">{title}<thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def pairs(facts: dict[str, str]) -> str:
    """Make a table of names and their values."""
    rows = "".join(f'<tr><th scope="row">{text(name)}</th><td>{text(value)}</td></tr>' for name, value in facts.items())
    return f'<div class="scroll" tabindex="0"><table class="pairs"><tbody>{rows}</tbody></table></div>'


def scores(values: list[Score], caption: str = "") -> str:
    """Make a table of metrics with interval, baseline and meaning."""
    rows = [
        [
            TITLES[score.metric.name],
            shown(score, score.value),
            interval(score),
            shown(score, score.baseline),
            _better(score),
            f"{MEANINGS[score.metric.name]} ({unit(score)})",
        ]
        for score in values
    ]
    head = ["Metric", "Value", "95 % interval", "Baseline", "Better", "Meaning (unit)"]
    return table(head, rows, numbers=(1, 2, 3), caption=caption, kind="scores")


def shown(score: Score, value: float, like: float | None = None) -> str:
    """Write a value of a metric in its unit; a probability that is zero but for rounding is written as 0."""
    if score.metric.unit == "share":
        return share(value)
    return number(round(value, 12) if score.metric.unit == "probability" else value, like=like)


def interval(score: Score) -> str:
    """Write the interval of a metric."""
    low, high = (shown(score, end, like=score.value) for end in (score.low, score.high))
    return ABSENT if low == ABSENT else f"{low} to {high}"


def unit(score: Score) -> str:
    """Name the unit of a metric."""
    return {"target": "unit of the target", "share": "share of rows"}.get(score.metric.unit, score.metric.unit)


def _better(score: Score) -> str:
    return {True: "higher", False: "lower", None: "near 95\N{NO-BREAK SPACE}%"}[score.metric.higher_is_better]


def write_page_figures(page: str, folder: Path) -> None:
    """Write each drawing of a finished page to a file that is named after its figure."""
    for name, content in re.findall(r'<figure id="figure-([^"]*)">(.*?)</figure>', page, re.DOTALL):
        drawings = re.findall(r"<svg .*?</svg>", content, re.DOTALL)
        for place, svg in enumerate(drawings):
            path = folder / (f"{name}-{place + 1}.svg" if len(drawings) > 1 else f"{name}.svg")
            with written_whole(path) as beside:
                beside.write_text(standalone(svg), encoding="utf-8")


def standalone(svg: str) -> str:
    """Make a drawing of a page a file of its own, with the page's colours, light and dark, font, and sharp pixels."""
    sheet = files("svdkl.report").joinpath("style.css").read_text(encoding="utf-8")
    colours = sheet[: sheet.index("* {")]
    font = re.search(r"font-family: [^;]*;", sheet)
    assert font is not None
    style = f"<style>{colours}svg {{ {font[0]} }} image {{ image-rendering: pixelated; }}</style>"
    opening, body = svg.split(">", 1)
    return f'{opening} xmlns="http://www.w3.org/2000/svg">{style}{body}\n'
