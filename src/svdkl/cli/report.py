"""``svdkl report``: a page about a model and its predictions on rows with targets."""

from pathlib import Path
from typing import Annotated

import typer

from svdkl import cli
from svdkl.cli.arguments import DROP, IGNORE_EXTRA, JSON, MODEL, NET, TABLE_OR_IMAGES
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
            help="A class or target whose GP's covariances are shown; may be given many times.",
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
    write_report = cli.write_report  # refused where matplotlib is missing, before any work
    saved = cli.open_model(model, net)
    X, y = saved.open(data, ignore_extra, with_targets=True, target=target, drop=drop).whole()
    write_report(saved.fitted, X, y, out, run=saved.facts, classes=classes or (), figures=figures)
    if json:
        print_json({"out": out, "rows": len(y), "model": model, "figures": figures})
    else:
        beside = f", and its figures in {figures}" if figures else ""
        print(f"Wrote {out}, a report on {len(y):,} rows{beside}.")
