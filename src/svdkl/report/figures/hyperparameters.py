"""Prior deviations and lengthscales of all Gaussian processes."""

import numpy as np
import numpy.typing as npt

from svdkl.report.figures.canvas import BLUE, ORANGE, Canvas, plain_log_axis

Reals = npt.NDArray[np.float64]


def hyperparameters(deviations: Reals, lengthscales: Reals, gps: list[int]) -> str:
    """One column a GP, by falling influence; several dots where a GP has several axes."""
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
