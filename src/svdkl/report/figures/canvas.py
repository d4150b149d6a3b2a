"""A canvas for figures: matplotlib without its global state, and SVG that takes its colours from the page.

Colours are drawn as placeholders, which the SVG names as variables of the style sheet, so that one figure is right on a
light and on a dark page. Text stays text, in the page's own font. The colours of heat maps are more or less opaque, so
that the page shows through where a value is small.
"""

import io
import re
import threading
import warnings
from contextlib import ExitStack
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

INK, MUTED, RULE = "#010101", "#020202", "#030303"  # text; secondary text; lines behind the data
BLUE, ORANGE, GREEN, RED = "#040404", "#050505", "#060606", "#070707"
VARIABLES = {INK: "ink", MUTED: "muted", RULE: "rule", BLUE: "blue", ORANGE: "orange", GREEN: "green", RED: "red"}

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "svdkl",  # the same figure has the same text every time
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.size": 11.0,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.titlesize": 12.0,
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "axes.labelsize": 11.0,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 10.0,
    "ytick.labelsize": 10.0,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 10.0,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
    "patch.linewidth": 0.0,
}

NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}

_one_at_a_time = threading.RLock()  # matplotlib's parameters belong to the whole program

# Pixels cannot change with the page, so these have a medium lightness that shows on light and dark ones.
POSITIVE, NEGATIVE = (37, 99, 235), (234, 88, 12)

Shades = npt.NDArray[np.uint8]


class Canvas:
    """An empty figure, measured in pixels of the page, to draw on in a with block; afterwards it is there as SVG.

    Within the block the calling program's own style does not count; after the block it is as it was before.
    """

    figure: Figure  # of matplotlib, to draw on
    svg: str  # the element of an HTML page, once the block has ended

    def __init__(self, width: int | float, height: int | float) -> None:
        self.size = width / 72, height / 72
        self.svg = ""

    def __enter__(self) -> "Canvas":
        with ExitStack() as stack:
            stack.enter_context(_one_at_a_time)
            stack.enter_context(matplotlib.rc_context())
            stack.enter_context(warnings.catch_warnings())
            # The browser has the letters that matplotlib's own font lacks.
            warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(STYLE)
            self.figure = Figure(figsize=self.size, layout="constrained")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, error: object, *_: object) -> None:
        with self._stack:
            if error is None:
                self.svg = _svg(self.figure)


def percent_axis(axes: Axes, which: str) -> None:
    """Show shares from 0 to 1 as percentages on the axis "x" or "y"."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))


def plain_log_axis(axes: Axes, which: str) -> None:
    """Make the axis "x" or "y" logarithmic, with plain numbers."""
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def bare(axes: Axes) -> None:
    """Remove the lines around and behind an image."""
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def _svg(figure: Figure) -> str:
    """Return the figure as an element of an HTML page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata=NO_METADATA)
    text = buffer.getvalue()
    # The style element would hold for the whole page, which has a rule of its own for that.
    text = re.sub(
        r"<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>", "", text, flags=re.DOTALL
    )
    opening, body = text[text.index("<svg") :].split(">", 1)
    used = set(re.findall(r'(?:url\(|href=")#([^")]+)', body))
    body = re.sub(r">\s+<", "><", re.sub(r"<[^>]+>", lambda tag: _tag(tag[0], used), body)).strip()
    box = re.search(r'viewBox="([^"]*)"', opening)
    assert box is not None
    width, height = box[1].split()[2:]
    return f'<svg width="{width}" height="{height}" viewBox="{box[1]}">{body}'


def _tag(tag: str, used: set[str]) -> str:
    """Shorten a tag, and give it the page's font and colours."""
    # Only what is referred to keeps its name; all names of all figures share one page.
    tag = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", tag)
    tag = re.sub(r' transform="rotate\(-?0 [^"]*"', "", tag).replace("xlink:href", "href")
    tag = re.sub(r"font: ([\d.]+)px [^;\"]*|font-size: ([\d.]+)px; font-family: [^;\"]*", r"font-size: \1\2px", tag)
    tag = re.sub(r' (d|x|y|transform)="[^"]*"', lambda match: _rounded(match[0]), tag)
    for placeholder, name in VARIABLES.items():
        tag = tag.replace(placeholder, f"var(--{name})")
    return tag


def _rounded(attribute: str) -> str:
    """Round coordinates to a hundredth of a pixel."""
    shorter = re.sub(r"-?\d+\.\d{3,}", lambda match: f"{float(match[0]):.2f}".rstrip("0").rstrip("."), attribute)
    return re.sub(r"\s+", " ", shorter)


def sequential(share: npt.NDArray[np.float64]) -> Shades:
    """Shade shares, from nothing at 0 to a full colour at 1, (..., 4)."""
    return _coloured(np.broadcast_to(np.array(POSITIVE), (*share.shape, 3)), share)


def diverging(share: npt.NDArray[np.float64]) -> Shades:
    """Shade shares, from one colour at -1 through nothing to another at 1, (..., 4)."""
    colour = np.where(share[..., None] < 0, np.array(NEGATIVE), np.array(POSITIVE))
    return _coloured(colour, np.abs(share))


def _coloured(colour: npt.NDArray[np.int64], opacity: npt.NDArray[np.float64]) -> Shades:
    opacity = np.nan_to_num(np.clip(opacity, 0, 1))
    return np.concatenate([colour, 255 * opacity[..., None]], -1).round().astype(np.uint8)
