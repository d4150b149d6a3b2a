"""The time of a step against the number of inducing points, as in the paper's Figure 2 c and d."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator

from svdkl.report.figures.canvas import BLUE, GREEN, INK, MUTED, ORANGE, RED, Canvas, plain_log_axis
from svdkl_research.bench.summaries import Curve

DASHED = (0, (4, 3))
STYLES: dict[str, dict[str, Any]] = {
    "network": {"color": MUTED},
    "svdkl": {"color": BLUE},
    "svdkl_cholesky": {"color": BLUE, "linestyle": DASHED},
    "gpytorch": {"color": ORANGE},
    "klsp_gp": {"color": GREEN},
    "mc_gp": {"color": RED},
}


def runtime(curves: Sequence[Curve], title: str) -> str:
    """Draw seconds on the left and, on the right, multiples of the time at the smallest m beside a slope of one.

    A cross marks the m at which a system ended. At least one curve must have points.
    """
    with Canvas(900, 420) as canvas:
        left, right = canvas.figure.subplots(1, 2)
        for curve in curves:
            style = {"marker": "o", "markersize": 4, **STYLES[curve.name]}
            below = [middle - low for middle, low in zip(curve.seconds, curve.low)]
            above = [high - middle for middle, high in zip(curve.seconds, curve.high)]
            left.errorbar(curve.m, curve.seconds, [below, above], label=_label(curve), **style)
            right.plot(curve.m, [value / curve.seconds[0] for value in curve.seconds], **style)
        places = sorted({m for curve in curves for m in curve.m})
        for axes in (left, right):
            plain_log_axis(axes, "x")
            plain_log_axis(axes, "y")
            axes.xaxis.set_major_locator(LogLocator())
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            axes.set_xlabel("inducing points m")
        for curve in curves:
            _mark_the_end(left, curve)
        _draw_slope_of_one(right, places[0])
        left.set(title=title, ylabel="seconds of a step")
        right.set(title="Relative to the smallest m", ylabel="times as long")
        canvas.figure.legend(loc="outside lower center", ncols=3)
    return canvas.svg


def _label(curve: Curve) -> str:
    slope = "" if curve.slope is None else f", slope {curve.slope:.2f}"
    return f"{curve.title}{slope}" + ("" if curve.ended is None else f" ({_reason(*curve.ended)})")


def _reason(m: int, status: str) -> str:
    return f"{status} at {m:,}" if status.startswith("out of") else status


def _mark_the_end(axes: Axes, curve: Curve) -> None:
    """Draw a cross at the top edge, above the m that could not be measured."""
    if curve.ended is not None:
        colour = STYLES[curve.name]["color"]
        axes.plot(
            [curve.ended[0]],
            [1.0],
            "x",
            color=colour,
            markersize=9,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
        )


def _draw_slope_of_one(axes: Axes, smallest: int) -> None:
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    axes.plot([smallest, right], [1, right / smallest], color=INK, linewidth=1, linestyle=DASHED)
    axes.set(xlim=(left, right), ylim=(bottom, max(top, 2.0)))
