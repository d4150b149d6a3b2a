"""How losses fell in training."""

import numpy as np
from matplotlib.ticker import MaxNLocator

from svdkl.report.facts.predictions import Reals
from svdkl.report.figures.canvas import BLUE, INK, MUTED, ORANGE, Canvas, plain_log_axis

WIDE = 10.0  # a largest loss of more than ten times the smallest would press the others flat


def learning(stages: list[str], train_loss: Reals, held_out: Reals, scaled: Reals | None = None) -> str:
    """Draw a point for each epoch, with a line between stages; ``scaled`` is after the best temperature, for classes.

    The losses of two stages do not compare.
    """
    with Canvas(600, 320) as canvas:
        axes = canvas.figure.add_subplot()
        epochs = np.arange(1, len(stages) + 1)
        curves = [
            (train_loss, BLUE, "-", "training loss"),
            (held_out, ORANGE, "-", "held-out negative log probability"),
        ]
        if scaled is not None:
            curves.append((scaled, ORANGE, "--", "the same with a temperature"))
        starts = [place for place in range(len(stages)) if place == 0 or stages[place] != stages[place - 1]]
        for start, end in zip(starts, [*starts[1:], len(stages)]):
            part = slice(start, end)
            marker = "o" if end - start < 15 else ""
            for losses, colour, line, name in curves:
                axes.plot(
                    epochs[part],
                    np.where(np.isfinite(losses), losses, np.nan)[part],
                    color=colour,
                    linestyle=line,
                    marker=marker if line == "-" else "",
                    markersize=4,
                    label=None if start else name,
                )
            if start:
                axes.axvline(start + 0.5, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
            above = (start + 0.5, 1.02)
            axes.annotate(stages[start], above, (3, 0), ("data", "axes fraction"), "offset points", color=INK)
        losses = np.concatenate([losses[np.isfinite(losses)] for losses, *_ in curves])
        if len(losses) and 0 < WIDE * losses.min() < losses.max():
            plain_log_axis(axes, "y")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="epoch", ylabel="loss of a row", xlim=(0.5, len(stages) + 0.5))
        canvas.figure.legend(loc="outside lower center", ncols=2)
    return canvas.svg
