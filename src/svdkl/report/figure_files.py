"""Figures as files of their own."""

import re
from importlib.resources import files
from pathlib import Path

from svdkl.writing import written_whole


def write_page_figures(page: str, folder: Path) -> None:
    """Write each drawing of a finished page to a file that is named after its figure."""
    for name, content in re.findall(r'<figure id="figure-([^"]*)">(.*?)</figure>', page, re.DOTALL):
        drawings = re.findall(r"<svg .*?</svg>", content, re.DOTALL)
        for place, svg in enumerate(drawings):
            path = folder / (f"{name}-{place + 1}.svg" if len(drawings) > 1 else f"{name}.svg")
            with written_whole(path) as beside:
                beside.write_text(standalone(svg), encoding="utf-8")


def standalone(svg: str) -> str:
    """A figure of a page as a file of its own: the page's colours, light and dark, its font, and its sharp pixels."""
    sheet = files("svdkl.report").joinpath("style.css").read_text(encoding="utf-8")
    colours = sheet[: sheet.index("* {")]
    font = re.search(r"font-family: [^;]*;", sheet)
    assert font is not None
    style = f"<style>{colours}svg {{ {font[0]} }} image {{ image-rendering: pixelated; }}</style>"
    opening, body = svg.split(">", 1)
    return f'{opening} xmlns="http://www.w3.org/2000/svg">{style}{body}\n'
