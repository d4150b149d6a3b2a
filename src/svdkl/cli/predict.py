"""``svdkl predict``: what a model says of the rows of a table, or of images."""

from pathlib import Path
from typing import Annotated

import typer

from svdkl import cli
from svdkl.cli.arguments import DROP, IGNORE_EXTRA, JSON, MODEL, NET, TABLE_OR_IMAGES
from svdkl.cli.output import check_out_file, print_json, write_tables


def predict(
    model: MODEL,
    data: TABLE_OR_IMAGES,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .csv or .parquet file; else CSV to standard output.")
    ] = None,
    columns: Annotated[str, typer.Option(metavar="NAME,...", help="Columns of the table to copy to the front.")] = "",
    uncertainty: Annotated[
        bool, typer.Option("--uncertainty", help="Add total, aleatoric and epistemic uncertainty, and ood_score.")
    ] = False,
    quantiles: Annotated[
        str, typer.Option(metavar="LEVEL,...", help="Regression: quantiles to add, such as 0.05,0.95.")
    ] = "",
    net: NET = None,
    drop: DROP = None,
    ignore_extra: IGNORE_EXTRA = False,
    json: JSON = False,
) -> None:
    """Predict the rows of a table, or images: labels and class probabilities, or mean and standard deviation.

    A table is read and the predictions are written part by part, so both may be larger than the memory.
    """
    try:
        levels = [float(part) for part in quantiles.split(",") if part]
    except ValueError:
        levels = [0.0]
    if not all(0 < level < 1 for level in levels):
        raise ValueError(f"Expected --quantiles between 0 and 1, such as 0.05,0.95, got {quantiles!r}.")
    if json and out is None:
        raise ValueError("Expected --out FILE beside --json, got none: predictions are a table, not a JSON document.")
    if out is not None:
        check_out_file(out)
        if out.exists() and data.exists() and out.samefile(data):
            raise ValueError(f"Expected --out to be another file than the table, got {out} twice: rename it.")
    saved = cli.open_model(model, net)
    if levels and saved.fitted.classes is not None:
        raise ValueError("Expected --quantiles for a regression model only, got a classification model: leave it out.")
    copied = [name for name in columns.split(",") if name]
    rows = saved.open(data, ignore_extra, columns=copied, drop=drop)
    count = write_tables(cli.tables_of_predictions(rows, copied, uncertainty, levels), out)
    if json:
        print_json({"out": out, "rows": count, "model": model})
