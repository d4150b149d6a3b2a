"""``svdkl report``: a page about a model and its predictions on a table with targets."""

from pathlib import Path
from typing import Annotated, Any

import typer

from svdkl.cli.arguments import DATA, DROP, IGNORE_EXTRA, JSON, MODEL
from svdkl.cli.matching import MatchedFile, known_columns
from svdkl.cli.models import load_model, read_facts
from svdkl.cli.output import check_out_file
from svdkl.cli.printing import print_json
from svdkl.cli.targets import Array, rows_with_targets, target_name


def report(
    model: MODEL,
    data: DATA,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page to write.")] = Path("report.html"),
    target: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of the targets; else what the model was trained on.")
    ] = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--class",
            metavar="NAME",
            help="A class or target whose process's covariances are shown; may be given many times.",
        ),
    ] = None,
    drop: DROP = None,
    ignore_extra: IGNORE_EXTRA = False,
    json: JSON = False,
) -> None:
    """Write a page with the metrics, calibration and uncertainty of a model on a table with targets."""
    check_out_file(out, (".html",))
    estimator, facts = _load(model), read_facts(model)
    column = target_name(target, facts)
    file = MatchedFile(estimator, data, known_columns(facts, column, *(drop or ())), ignore_extra)
    X, y = _read(estimator, file, column)
    from svdkl.report import write_report

    write_report(estimator, X, y, out, run=facts, classes=classes or ())
    if json:
        print_json({"out": out, "rows": len(y), "model": model})
    else:
        print(f"Wrote {out}, a report on {len(y):,} rows.")


def _load(model: Path) -> Any:
    """The model; one whose network is the user's own is sent to where its code is."""
    from svdkl.estimators.storage import NetworkNeededError

    try:
        return load_model(model)
    except NetworkNeededError as error:
        raise ValueError(
            f"Expected a model with a network of this package, got {model} with one of your own, whose code is not "
            f"stored beside it: load it in Python with load(path, net=...) and call svdkl.report.write_report."
        ) from error


def _read(estimator: Any, file: MatchedFile, target: str) -> tuple[Any, Array]:
    """All rows that have a target, and their labels or numbers."""
    import numpy as np
    import pyarrow as pa

    parts = list(rows_with_targets(estimator, file, target))
    y = np.concatenate([part.y for part in parts])
    return pa.concat_tables([part.X for part in parts]), estimator.classes_[y] if hasattr(estimator, "classes_") else y
