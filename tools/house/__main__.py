"""Measure the house: how far a call walks, how large the package is, and how much its modules know of each other.

python tools/house            print every measure beside its limit; exit with 1 if one does not hold
python tools/house --places   print also what was counted, for the measures that do not hold
python tools/house --json     print the measures for a program to read
"""

import json
import statistics
import sys
from dataclasses import asdict, dataclass, field

import sources
import walks
from limits import LIMITS


@dataclass(frozen=True)
class Measure:
    """A number, the largest value that it may have, and what was counted."""

    name: str
    value: float
    counted: list[str] = field(default_factory=list)

    @property
    def limit(self) -> float:
        """The largest value that is allowed."""
        return LIMITS[self.name]

    @property
    def holds(self) -> bool:
        """Whether the value is allowed."""
        return self.value <= self.limit


def _counted(name: str, places: list[str]) -> Measure:
    return Measure(name, len(places), places)


def _walked(name: str, walk: walks.Walk, *, changes: bool = False) -> list[Measure]:
    functions = [f"{function.file} {function.name}" for function in walk.functions]
    found = [_counted(f"{name}: functions", functions), _counted(f"{name}: files", walk.files)]
    return [*found, Measure(f"{name}: changes of package", walk.changes_of_package)] if changes else found


def walked() -> list[Measure]:
    """The measures for which the package runs."""
    fit = walks.one_fit()
    return [
        *_walked("fit before training", walks.fit_before_training(), changes=True),
        Measure("one fit: times the table is opened", fit.calls[walks.OPEN_TABLE]),
        Measure("one fit: times a column is converted", max(fit.converted.values())),
        Measure("one fit: heads built", fit.calls[walks.BUILD_HEAD]),
        *_walked("predict_proba", walks.predict_proba()),
        _counted("svdkl train around the fit: files", walks.svdkl_train().files),
        Measure("svdkl train: times the CSV file is parsed", walks.parses_of_a_csv_file()),
    ]


def read() -> list[Measure]:
    """The measures for which the package's text is read."""
    share, plain = sources.share_of_any("estimators")
    dependencies = sources.core_dependencies()
    return [
        Measure("the wheel: files", len(sources.modules())),
        Measure("the wheel: lines", sources.lines()),
        _counted(
            "a new estimator option: files to touch beside where it is used", sources.files_that_pass_an_option_on()
        ),
        Measure("parameters of estimators/ annotated as Any: per cent", round(share, 1), plain),
        _counted("reads of another module's private names", sources.foreign_private_reads()),
        _counted("isinstance forks on the kind of model", sources.forks_on_the_model()),
        _counted("core dependencies", dependencies),
        Measure("pandas among what the core dependencies bring", sources.brought_by(dependencies).count("pandas")),
        _counted("file names that stand twice", sources.names_that_stand_twice()),
    ]


def tell(measures: list[Measure], places: bool) -> None:
    """Print the measures beside their limits, and below them what has no limit."""
    width = max(len(measure.name) for measure in measures)
    print(f"{'':{width}}  {'today':>7}  {'at most':>7}")
    for measure in measures:
        verdict = "" if measure.holds else "  does not hold"
        print(f"{measure.name:{width}}  {measure.value:7,g}  {measure.limit:7,g}{verdict}")
        if places and not measure.holds:
            print("".join(f"    {one}\n" for one in measure.counted), end="")
    lengths = [len(path.read_text().splitlines()) for path in sources.modules()]
    print(f"{'imports of the package inside of functions':{width}}  {len(sources.imports_inside_functions()):7,g}")
    print(f"{'lines of the median file':{width}}  {statistics.median(lengths):7,g}")
    print(f"{'lines of the longest file':{width}}  {max(lengths):7,g}")


def main(arguments: list[str]) -> int:
    """Print the measures; 1 if one does not hold."""
    measures = [*walked(), *read()]
    if "--json" in arguments:
        print(json.dumps([{**asdict(measure), "limit": measure.limit} for measure in measures]))
    else:
        tell(measures, "--places" in arguments)
    return 0 if all(measure.holds for measure in measures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
