"""``svdkl report``: a page about a model and its predictions on rows with targets."""

from pathlib import Path
from typing import Annotated, Any

import typer

from svdkl.cli.arguments import DROP, IGNORE_EXTRA, JSON, MODEL, NET, TABLE_OR_IMAGES, load_model, read_facts
from svdkl.cli.data import Array, MatchedFile, known_columns, rows_with_targets, target_name
from svdkl.cli.image_folders import ImageFile, holds_images
from svdkl.cli.output import check_out_file, print_json


def report(
    model: MODEL,
    data: TABLE_OR_IMAGES,
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
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder for each figure of the page as an .svg file, too.")
    ] = None,
    net: NET = None,
    drop: DROP = None,
    ignore_extra: IGNORE_EXTRA = False,
    json: JSON = False,
) -> None:
    """Write a page with the metrics, calibration and uncertainty of a model on rows with targets."""
    check_out_file(out, (".html",))
    from svdkl.report import write_report

    estimator, facts = load_model(model, net), read_facts(model)
    if holds_images(estimator, data):
        images = ImageFile(estimator, data, target=target, drop=drop, ignore_extra=ignore_extra)
        X, y = images.images, images.labels
    else:
        column = target_name(target, facts)
        file = MatchedFile(estimator, data, known_columns(facts, column, *(drop or ())), ignore_extra)
        X, y = _read(estimator, file, column)
    write_report(estimator, X, y, out, run=facts, classes=classes or (), figures=figures)
    if json:
        print_json({"out": out, "rows": len(y), "model": model, "figures": figures})
    else:
        beside = f", and its figures in {figures}" if figures else ""
        print(f"Wrote {out}, a report on {len(y):,} rows{beside}.")


def _read(estimator: Any, file: MatchedFile, target: str) -> tuple[Any, Array]:
    """All rows that have a target, and their labels or numbers."""
    import numpy as np
    import pyarrow as pa

    parts = list(rows_with_targets(estimator, file, target))
    y = np.concatenate([part.y for part in parts])
    return pa.concat_tables([part.X for part in parts]), estimator.classes_[y] if hasattr(estimator, "classes_") else y
