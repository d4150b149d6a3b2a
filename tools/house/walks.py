"""What runs between a call of the public interface and its answer: functions of the package, and their files.

A function counts once, when it is first entered. Counted is what a reader would open: functions, methods and
constructors, without properties, other special methods, lambdas and functions inside of functions. Compiled code is
left out, and so is what linear algebra and kernels call, since a reader takes them at their word. Code that runs while
a module is imported is left out too.
"""

import contextlib
import functools
import importlib
import inspect
import io
import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.csv

import svdkl
from svdkl import SVDKLClassifier
from svdkl.cli.app import main

PACKAGE = f"{Path(svdkl.__file__).parent}/"
NUM_ROWS = 60
SMALL = {"hidden": (8,), "num_features": 2, "grid_size": 8, "max_iter": 2, "random_state": 0}
OPTIONS = "--hidden 8 --num-features 2 --grid-size 8 --max-iter 2 --quiet"
COMPILED = "gp/fast/"
TAKEN_AT_THEIR_WORD = ("gp/linalg/", "gp/kernels.py")
OPENED_BY_A_READER = ("__init__", "__post_init__")  # among the special methods


class Function(NamedTuple):
    """A function by its file within the package and its name within the file."""

    file: str
    name: str

    @property
    def package(self) -> str:
        """The folder within the package that the file lies in."""
        return self.file.split("/")[0] if "/" in self.file else ""

    def meaning(self) -> object:
        """What the name stands for; None where there is nothing of that name."""
        module = f"svdkl.{self.file.removesuffix('.py').replace('/', '.')}"
        found: object = importlib.import_module(module.removesuffix(".__init__"))
        for part in self.name.split("."):
            found = inspect.getattr_static(found, part, None)
        return found

    def counts(self) -> bool:
        """Whether a reader would open it."""
        if self.file.startswith(COMPILED) or "<" in self.name:
            return False
        last = self.name.rsplit(".", 1)[-1]
        if last.startswith("__"):
            return last in OPENED_BY_A_READER
        return not isinstance(self.meaning(), property | functools.cached_property)


TRAIN = Function("training/recipe.py", "train")
OPEN_TABLE = Function("tables/frames.py", "open_frame")  # open_table leaves an open table as it is
CONVERT = Function("tables/frames.py", "read_pandas")
BUILD_HEAD = Function("gp/head.py", "GPHead.__init__")
# A fit: to learn what its rows are, and to train on them.
FIT = (Function("estimators/fitting.py", "prepare_table"), Function("estimators/fitting.py", "fit_model"))


class Arrived(BaseException):
    """The walk has come to where it ends; nothing on the way may catch this."""


class Walk:
    """Record the functions that the main thread enters.

    Parameters
    ----------
    until
        Where the walk ends.
    around
        Functions that are not followed.

    Attributes
    ----------
    functions
        The functions that count, in the order in which they were first entered.
    calls
        How often each function was entered at all.
    converted
        How often the column of each name was converted.
    """

    def __init__(self, until: Function | None = None, around: tuple[Function, ...] = ()) -> None:
        self.until, self.around = until, around
        self.functions: dict[Function, None] = {}
        self.calls: Counter[Function] = Counter()
        self.converted: Counter[str] = Counter()
        self._hides: list[bool] = []  # for each open call, whether the calls below it are left out

    def take(self, action: Callable[[], Any]) -> "Walk":
        """Do something and record it."""
        for named in (self.until, *self.around, OPEN_TABLE, CONVERT, BUILD_HEAD):
            if named is not None and named.meaning() is None:
                raise LookupError(
                    f"Expected {named.file} to have {named.name}, found nothing of that name: say in "
                    f"tools/house/walks.py what it is called now."
                )
        self._hides.clear()
        sys.setprofile(self._note)
        try:
            action()
        except Arrived:
            return self
        finally:
            sys.setprofile(None)
        if self.until is not None:
            raise LookupError(f"Expected the walk to come to {self.until.name}, which was never entered.")
        return self

    @property
    def files(self) -> list[str]:
        """The files of the functions."""
        return list(dict.fromkeys(function.file for function in self.functions))

    @property
    def changes_of_package(self) -> int:
        """How often a function and the next one lie in different packages."""
        packages = [function.package for function in self.functions]
        return sum(one != other for one, other in itertools.pairwise(packages))

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._hides.append(self._enter(frame, hidden=bool(self._hides and self._hides[-1])))
        elif event == "return" and self._hides:
            self._hides.pop()

    def _enter(self, frame: FrameType, hidden: bool) -> bool:
        """Record a call; say whether the calls below it are left out."""
        path = frame.f_code.co_filename
        if not path.startswith(PACKAGE):
            return hidden
        function = Function(path.removeprefix(PACKAGE), frame.f_code.co_qualname)
        self.calls[function] += 1
        if function == CONVERT:
            self.converted[frame.f_locals["name"]] += 1
        if not hidden and function not in self.around and function.counts():
            self.functions.setdefault(function)
        if function == self.until:
            raise Arrived
        importing = function.name == "<module>"
        return hidden or importing or function in self.around or function.file.startswith(TAKEN_AT_THEIR_WORD)


def table() -> tuple[pd.DataFrame, np.ndarray]:
    """A column of text, a column of numbers, and a class for each row."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"text": random.choice(["a", "b", "c"], NUM_ROWS), "number": random.normal(size=NUM_ROWS)})
    return frame, np.where(frame["number"] > 0, "yes", "no")


def fit_before_training() -> Walk:
    """From ``fit`` until the recipe begins to train."""
    return Walk(until=TRAIN).take(lambda: SVDKLClassifier(random_state=0).fit(*table()))


def one_fit() -> Walk:
    """The whole of a fit."""
    return Walk().take(lambda: SVDKLClassifier(**SMALL).fit(*table()))


def predict_proba() -> Walk:
    """The first prediction of a fitted classifier, for a column of numbers."""
    frame, y = table()
    numbers = frame[["number"]]
    classifier = SVDKLClassifier(**SMALL).fit(numbers, y)
    return Walk().take(lambda: classifier.predict_proba(numbers))


class CountingReader:
    """A reader of a CSV file that notes when rows are read; the names in the first line are no parse."""

    def __init__(self, reader: Any, parses: list[str]) -> None:
        self._reader, self._parses = reader, parses

    def __enter__(self) -> "CountingReader":
        self._reader.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._reader.__exit__(*error)

    def __iter__(self) -> Iterator[Any]:
        self._parses.append("rows")
        return iter(self._reader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("read"):
            self._parses.append(name)
        return getattr(self._reader, name)


@contextlib.contextmanager
def parses_noted() -> Iterator[list[str]]:
    """Note every pass through the rows of a CSV file."""
    parses: list[str] = []
    real = pyarrow.csv.open_csv
    pyarrow.csv.open_csv = lambda *arguments, **options: CountingReader(real(*arguments, **options), parses)
    try:
        yield parses
    finally:
        pyarrow.csv.open_csv = real


def _train(data: Path, out: Path) -> None:
    command = f"train {data} --target label --out {out} {OPTIONS}"
    with contextlib.redirect_stdout(io.StringIO()):
        code = main(command.split())
    if code != 0:
        raise RuntimeError(f"Expected svdkl {command} to end well, got exit code {code}.")


def svdkl_train() -> Walk:
    """``svdkl train`` on a Parquet file, without what happens inside of the fit."""
    frame, y = table()
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "table.parquet"
        frame.assign(label=y).to_parquet(data)
        return Walk(around=FIT).take(lambda: _train(data, Path(folder) / "run"))


def parses_of_a_csv_file() -> int:
    """How often ``svdkl train`` goes through the rows of a CSV file."""
    frame, y = table()
    with tempfile.TemporaryDirectory() as folder, parses_noted() as parses:
        data = Path(folder) / "table.csv"
        frame.assign(label=y).to_csv(data, index=False)
        _train(data, Path(folder) / "run")
    return len(parses)
