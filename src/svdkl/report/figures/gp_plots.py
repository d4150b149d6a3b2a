"""Drawings of the Gaussian processes: functions, use of their grids, hyperparameters, covariances, mixing matrix."""

import numpy as np

from svdkl.report.facts.gp_facts import LearnedFunction
from svdkl.report.facts.predictions import Reals
from svdkl.report.figures.canvas import BLUE, MUTED, ORANGE, RULE, Canvas, bare, diverging, plain_log_axis, sequential


def function(line: LearnedFunction, title: str, x_label: str, y_label: str) -> str:
    """Draw a mean with a band of two deviations; columns at the bottom show where the rows lie."""
    with Canvas(325, 250) as canvas:
        axes = canvas.figure.add_subplot()
        axes.fill_between(line.feature, line.mean - 2 * line.std, line.mean + 2 * line.std, color=BLUE, alpha=0.2)
        axes.plot(line.feature, line.mean, color=BLUE)
        ends = line.feature[0], line.feature[-1]
        axes.set(xlabel=x_label, ylabel=y_label, xlim=ends)
        axes.set_title(title, fontsize=11)
        counts, edges = np.histogram(line.rows, bins=40, range=ends)
        if counts.any():
            heights = counts / counts.max() / 6  # of the axes
            place = axes.get_xaxis_transform()
            axes.stairs(heights, edges, fill=True, color=MUTED, alpha=0.35, transform=place)
    return canvas.svg


def grid_use(shares: list[Reals], gps: list[int]) -> str:
    """Draw a row for each GP and a column for each cell; the more rows of the table a cell holds, the darker it is."""
    cells = max(map(len, shares))
    image = np.full((len(gps), cells), np.nan)
    for row, share in zip(image, shares):
        row[: len(share)] = np.sqrt(share / share.max())  # so that a few rows can be told from none
    height = float(np.clip(13 * len(gps), 60, 760))
    with Canvas(520, height + 60) as canvas:
        axes = canvas.figure.add_subplot()
        axes.imshow(sequential(image), interpolation="none", aspect="auto")
        bare(axes)
        axes.set_yticks(range(len(gps)), [str(gp) for gp in gps], fontsize=8)
        axes.set(xlabel="grid cell", ylabel="Gaussian process, by falling influence")
    return canvas.svg


def hyperparameters(deviations: Reals, lengthscales: Reals, gps: list[int]) -> str:
    """Draw a column for each GP, by falling influence, with several dots where a GP has several axes."""
    some = bool(np.isfinite(lengthscales).any())
    with Canvas(float(np.clip(15 * len(gps), 260, 800)) + 90, 330 if some else 190) as canvas:
        axes = canvas.figure.subplots(2 if some else 1, 1, squeeze=False)[:, 0]
        axes[0].plot(range(len(gps)), deviations, "o", color=BLUE, markersize=5)
        axes[0].set_ylabel("prior deviation")
        axes[0].set_ylim(bottom=0)
        axes[0].set_xticks([])
        if some:
            places = np.broadcast_to(np.arange(len(gps))[:, None], lengthscales.shape)
            axes[1].plot(places.ravel(), lengthscales.ravel(), "o", color=ORANGE, markersize=5)
            plain_log_axis(axes[1], "y")
            axes[1].set_ylabel("lengthscale")
        axes[-1].set_xticks(range(len(gps)), [str(gp) for gp in gps], fontsize=8, rotation=0 if max(gps) < 100 else 90)
        axes[-1].set_xlabel("Gaussian process, by falling influence")
        axes[-1].tick_params(axis="x", length=0)
        for one in axes:
            one.set_xlim(-0.7, len(gps) - 0.3)
            one.xaxis.grid(False)
    return canvas.svg


def kernel(matrix: Reals, groups: list[tuple[str, int]], title: str, x_label: str) -> str:
    """Draw a covariance matrix between sorted rows, blue where it is large and orange where it is negative.

    Groups are named runs of rows, with their sizes.
    """
    low, high = float(matrix.min()), float(matrix.max())
    signed = low < -1e-3 * high
    shades = diverging(matrix / max(-low, high)) if signed else sequential((matrix - low) / (high - low or 1.0))
    with Canvas(300, 310) as canvas:
        axes = canvas.figure.add_subplot()
        axes.imshow(shades, interpolation="none")
        bare(axes)
        axes.spines[:].set(visible=True, color=RULE)
        axes.set_title(title, fontsize=11)
        ends = np.cumsum([size for _, size in groups])
        for end in ends[:-1].tolist():
            axes.axhline(end - 0.5, color=MUTED, linewidth=0.5, alpha=0.6)
            axes.axvline(end - 0.5, color=MUTED, linewidth=0.5, alpha=0.6)
        wide = [
            (name, float(end - size / 2 - 0.5))
            for (name, size), end in zip(groups, ends.tolist())
            if name and size >= 0.045 * len(matrix)
        ]
        axes.set_yticks([middle for _, middle in wide], [name for name, _ in wide], fontsize=9)
        axes.set_xticks([])
        axes.set_xlabel(x_label)
    return canvas.svg


def mixing(weights: Reals, outputs: list[str], gps: list[int], x_label: str) -> str:
    """Draw the mixing matrix A, outputs by GPs: blue is positive, orange negative, strong colours are large weights."""
    longest = max(map(len, outputs))
    num_outputs, num_gps = weights.shape
    width = float(np.clip(14.5 * num_gps, 260, 800)) + 40 + 5.5 * longest
    row = float(np.clip(26 if num_outputs <= 12 else 16, 12, 26))
    with Canvas(width, row * num_outputs + 60) as canvas:
        axes = canvas.figure.add_subplot()
        most = float(np.abs(weights).max()) or 1.0
        axes.imshow(diverging(weights / most), interpolation="none", aspect="auto")
        bare(axes)
        axes.set_xticks(range(num_gps), [str(gp) for gp in gps], fontsize=8, rotation=0 if max(gps) < 100 else 90)
        axes.set_yticks(range(num_outputs), outputs)
        axes.set_xlabel(x_label)
    return canvas.svg
