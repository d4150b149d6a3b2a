"""Does SV-DKL beat its rivals? Differences between runs on the same rows, and a plain word on them."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean, stdev

from svdkl_research.pages.measures import MEASURES, Measure
from svdkl_research.rivals import TITLES
from svdkl_research.suites.results import Result
from svdkl_research.suites.suite import Suite

OURS = ("svdkl_paper", "svdkl_paper_small_batches", "svdkl")
TODAY = ("laplace", "ensemble", "lightgbm")  # what people use now; our defaults are compared with them, too
RIVALS = ("dnn", "cnn", "dnn_temperature", "dnn_plus", "cnn_plus", "dnn_gp", "cnn_gp")


@dataclass(frozen=True)
class Comparison:
    """One measure of two models: ours minus the rival's in every run that both have, at least one."""

    measure: Measure
    differences: tuple[float, ...]
    mixed: int = 0  # of them between runs of two commits, which may differ in more than the model

    @property
    def mean(self) -> float:
        """Of the differences."""
        return mean(self.differences)

    @property
    def digits(self) -> int:
        """One more than in tables, where means and spreads of differences would often look the same."""
        return self.measure.digits + 1

    @property
    def spread(self) -> float | None:
        """Standard deviation of the differences; a single run has none."""
        return stdev(self.differences) if len(self.differences) > 1 else None

    @property
    def verdict(self) -> str:
        """Better or worse if the mean difference is larger than the spread, as both are printed."""
        if self.spread is None:
            return "no spread known"
        if abs(round(self.mean, self.digits)) <= round(self.spread, self.digits):
            return "no difference beyond the spread"
        return "better" if self.measure.distance(self.mean) < 0 else "worse"

    @property
    def text(self) -> str:
        """The verdict and its numbers."""
        runs, digits = len(self.differences), self.digits
        spread = "" if self.spread is None else f" ± {self.spread:.{digits}f}"
        counted = "1 run" if runs == 1 else f"{runs} runs"
        if self.mixed:
            counted += ", of two commits" if self.mixed == runs else f", {self.mixed} of them of two commits"
        return f"{self.measure.title} {self.verdict} ({self.mean:+.{digits}f}{spread}, {counted})"


def compare(measure: Measure, ours: Iterable[Result], rival: Iterable[Result]) -> Comparison | None:
    """The differences run by run; None if the two have no run in common."""
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
    """A line for each of our models and each rival on one set, on its first two measures."""
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
