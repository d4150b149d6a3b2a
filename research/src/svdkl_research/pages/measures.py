"""The metrics that pages show, and which of their values are better."""

from dataclasses import dataclass

from svdkl_research.datasets.dataset import Kind


@dataclass(frozen=True)
class Measure:
    """A metric: its key in a result's metrics, how it is written, and which values are best."""

    key: str
    title: str
    digits: int
    better: str  # "high", "low", or "near": best at the target
    target: float = 0.0

    def distance(self, value: float) -> float:
        """Return a number that is the lower, the better the value is."""
        return {"high": -value, "low": value, "near": abs(value - self.target)}[self.better]


# How well a score tells rows of another set. The score's name follows the key, except for the main score.
OUTSIDE = (Measure("ood_auroc", "AUROC", 4, "high"), Measure("ood_fpr95", "FPR95", 4, "low"))

# Verdicts are on the first two measures of each kind.
MEASURES: dict[Kind, tuple[Measure, ...]] = {
    "classification": (
        Measure("accuracy", "accuracy", 4, "high"),
        Measure("nlp", "NLP", 4, "low"),
        Measure("ece", "ECE", 4, "low"),
        Measure("brier", "Brier", 4, "low"),
        Measure("auroc", "AUROC", 4, "high"),
    ),
    "regression": (
        Measure("rmse", "RMSE", 4, "low"),
        Measure("nlpd", "NLPD", 4, "low"),
        Measure("crps", "CRPS", 4, "low"),
        Measure("coverage95", "95 % interval holds", 3, "near", 0.95),
    ),
}
