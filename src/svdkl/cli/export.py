"""``svdkl export``: a model as a file that other programs run."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from svdkl import cli
from svdkl.cli.arguments import JSON, MODEL, NET
from svdkl.cli.output import print_json

CHECKED_ROWS = 10_000  # of --data, at most


def export(
    model: MODEL,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the file and what stands beside it.")],
    format: Annotated[str, typer.Option(metavar="NAME", help="onnx, or torch for torch.export.")] = "onnx",
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A table, or images, to check the file on; random rows without it."),
    ] = None,
    net: NET = None,
    json: JSON = False,
) -> None:
    """Write a model as an ONNX or torch.export file, and check that it predicts as the model does.

    The file takes rows as encoder.json says and gives probabilities, or mean and standard deviation; export.json names
    its inputs and outputs.
    """
    saved = cli.open_model(model, net)
    rows = None
    if data is not None:
        X, _ = next(saved.open(data, ignore_extra=not saved.reads_images).batches())
        rows = X[:CHECKED_ROWS]
    written = cli.export_model(saved.fitted, out, format, rows)
    if json:
        print_json(asdict(written))
        return
    print(f"Wrote {written.file}, with export.json, which says how to use it.")
    print(
        f"Checked with {written.checked_with} on {written.checked_on}, in batches of several sizes: it differs from "
        f"the model by at most {written.largest_difference:.1e}."
    )
