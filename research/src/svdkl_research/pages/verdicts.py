"""Verdicts on SV-DKL against its rivals, from differences between runs on the same rows."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean, stdev

from svdkl_research.pages.measures import MEASURES, Measure
from svdkl_research.rivals import TITLES
from svdkl_research.suites.results import Result
from svdkl_research.suites.suite import Suite

OURS = ("svdkl_paper", "svdkl_paper_small_batches", "svdkl")
TODAY = ("laplace", "ensemble", "lightgbm")  # what people use today: only our defaults are compared with them
RIVALS = ("dnn", "cnn", "dnn_temperature", "dnn_plus", "cnn_plus", "dnn_gp", "cnn_gp")


@dataclass(frozen=True)
class Comparison:
    """Differences of one measure, ours minus the rival's, in the runs that both have."""

    measure: Measure
    differences: tuple[float, ...]
    mixed: int = 0  # number of differences between two commits, which may differ in more than the model

    @property
    def mean(self) -> float:
        """Mean of the differences."""
        return mean(self.differences)

    @property
    def digits(self) -> int:
        """Decimal places: one more than in tables, since differences are small."""
        return self.measure.digits + 1

    @property
    def spread(self) -> float | None:
        """Standard deviation of the differences; None of a single run."""
        return stdev(self.differences) if len(self.differences) > 1 else None

    @property
    def verdict(self) -> str:
        """The verdict: better or worse if the mean difference exceeds the spread, both rounded as printed."""
        if self.spread is None:
            return "no spread known"
        if abs(round(self.mean, self.digits)) <= round(self.spread, self.digits):
            return "no difference beyond the spread"
        return "better" if self.measure.distance(self.mean) < 0 else "worse"

    @property
    def text(self) -> str:
        """The measure, the verdict and its numbers in words."""
        runs, digits = len(self.differences), self.digits
        spread = "" if self.spread is None else f" ± {self.spread:.{digits}f}"
        counted = "1 run" if runs == 1 else f"{runs} runs"
        if self.mixed:
            counted += ", of two commits" if self.mixed == runs else f", {self.mixed} of them of two commits"
        return f"{self.measure.title} {self.verdict} ({self.mean:+.{digits}f}{spread}, {counted})"


def compare(measure: Measure, ours: Iterable[Result], rival: Iterable[Result]) -> Comparison | None:
    """Compare two models run by run; None if they have no run in common."""
    theirs = {result.run: result for result in rival}
    differences, mixed = [], 0
    for result in ours:
        other = theirs.get(result.run)
        if other is None:
            continue
        own, their = (each.metrics.get(measure.key) for each in (result, other))
        if own is not None and their is not None:
            differences.append(float(own - their))
            mixed += result.provenance.get("commit") != other.provenance.get("commit")
    return Comparison(measure, tuple(differences), mixed) if differences else None


def verdicts(suite: Suite, by_model: dict[str, list[Result]]) -> list[str]:
    """Write a line for each of our models against each rival, on the first two measures of a set."""
    lines = []
    for own in OURS:
        for rival in (*RIVALS, *TODAY) if own == "svdkl" else RIVALS:
            found = [
                compare(measure, by_model.get(own, ()), by_model.get(rival, ())) for measure in MEASURES[suite.kind][:2]
            ]
            texts = [comparison.text for comparison in found if comparison is not None]
            if texts:
                lines.append(f"{TITLES[own]} against {TITLES[rival]}: {'; '.join(texts)}.")
    return lines
