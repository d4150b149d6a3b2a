"""What runs are judged by."""

from dataclasses import dataclass

from svdkl_research.datasets.dataset import Task as Kind


@dataclass(frozen=True)
class Measure:
    """A number of a result: its key in metrics.json, how it is written, and what is best."""

    key: str
    title: str
    digits: int
    better: str  # "high", "low", or "near" for what is best at the target
    target: float = 0.0

    def distance(self, value: float) -> float:
        """How far from the best a value is."""
        return {"high": -value, "low": value, "near": abs(value - self.target)}[self.better]


# How well scores tell rows from elsewhere; a score's name follows the key, except the main one's.
OUTSIDE = (Measure("ood_auroc", "AUROC", 4, "high"), Measure("ood_fpr95", "FPR95", 4, "low"))

# The first two of each kind are those that verdicts are on.
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
