"""Pieces of HTML. Whatever comes from data or users is escaped here, and nowhere else has to be."""

import html
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from svdkl.report.words import visible


class Panel(NamedTuple):
    """One drawing of a figure, with what it shows for those who do not see it."""

    svg: str
    description: str


class Markup(str):
    """Text that is HTML already, and is not escaped again."""


class Section(NamedTuple):
    """A part of the page with a place in its table of contents."""

    name: str
    title: str
    body: str


def text(value: Any) -> str:
    """Any value as text that HTML cannot mistake for markup, unless it is meant as that."""
    return value if isinstance(value, Markup) else html.escape(visible(str(value)))


def paragraph(sentence: str) -> str:
    """One paragraph of plain text."""
    return f"<p>{text(sentence)}</p>"


def bullets(sentences: Iterable[str]) -> str:
    """A list of plain sentences."""
    return f"<ul>{''.join(f'<li>{text(sentence)}</li>' for sentence in sentences)}</ul>"


def heading(title: str) -> str:
    """The heading of a part of a section."""
    return f"<h3>{text(title)}</h3>"


def folded(summary: str, body: str) -> str:
    """Markup that is out of the way until it is asked for."""
    return f"<details><summary>{text(summary)}</summary>{body}</details>"


def figure(name: str, title: str, panels: list[Panel], caption: str, wide: bool = False) -> str:
    """Drawings beside each other where there is room, under one caption that says how to read them."""
    shown = "".join(
        f'<div class="panel">{_embedded(panel, f"{name}-{place}")}</div>' for place, panel in enumerate(panels)
    )
    kind = "panels wide" if wide else "panels"
    return (
        f'<figure id="figure-{name}"><h3>{text(title)}</h3><div class="{kind}">{shown}</div>'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


def _embedded(panel: Panel, name: str) -> str:
    """A drawing whose inner names are its own on the page."""

    def renamed(tag: re.Match[str]) -> str:
        own = re.sub(r' id="([^"]*)"', rf' id="{name}-\1"', tag[0])
        return re.sub(r'(url\(|href=")#', rf"\1#{name}-", own)

    svg = re.sub(r"<[^>]+>", renamed, panel.svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{text(panel.description)}" ', 1)


def section(part: Section) -> str:
    """A section with its heading."""
    return f'<section id="{part.name}"><h2>{text(part.title)}</h2>{part.body}</section>'


def contents(parts: list[Section]) -> str:
    """Links to all sections."""
    links = "".join(f'<li><a href="#{part.name}">{text(part.title)}</a></li>' for part in parts)
    return f'<nav aria-label="Contents"><ol>{links}</ol></nav>'
