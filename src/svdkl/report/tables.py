"""HTML tables, each in a box of its own that scrolls where the page is too narrow."""

from collections.abc import Sequence

from svdkl.report.facts.scores import Score
from svdkl.report.markup import text
from svdkl.report.words import ABSENT, number, share

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
    "adaptive_calibration_error": "The same, in 15 bins with equally many rows.",
    "rmse": "Typical size of an error; large errors count most.",
    "mae": "Mean size of an error.",
    "gaussian_nlpd": "Mean of −log density of the truth, under a Gaussian of the predicted mean and deviation.",
    "crps_gaussian": "Distance between that Gaussian and the truth: the absolute error, for distributions.",
    "interval_coverage": "Share of rows within their 95 % interval; 95 % is best.",
}


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: Sequence[int] = (),
    caption: str = "",
    kind: str = "",
) -> str:
    """Cells of plain text; columns of numbers, by their places, are set to the right; ``kind`` is a class of styles."""
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
    """Names and their values."""
    rows = "".join(f'<tr><th scope="row">{text(name)}</th><td>{text(value)}</td></tr>' for name, value in facts.items())
    return f'<div class="scroll" tabindex="0"><table class="pairs"><tbody>{rows}</tbody></table></div>'


def scores(values: list[Score], caption: str = "") -> str:
    """Metrics with interval, baseline and meaning."""
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
    """A value of a metric as its unit wants it; what rounding has left of zero is zero."""
    if score.metric.unit == "share":
        return share(value)
    return number(round(value, 12) if score.metric.unit == "probability" else value, like=like)


def interval(score: Score) -> str:
    """From low to high."""
    low, high = (shown(score, end, like=score.value) for end in (score.low, score.high))
    return ABSENT if low == ABSENT else f"{low} to {high}"


def unit(score: Score) -> str:
    """What a metric is measured in."""
    return {"target": "unit of the target", "share": "share of rows"}.get(score.metric.unit, score.metric.unit)


def _better(score: Score) -> str:
    return {True: "higher", False: "lower", None: "near 95\N{NO-BREAK SPACE}%"}[score.metric.higher_is_better]
